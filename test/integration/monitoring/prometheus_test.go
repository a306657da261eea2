package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/must"
)

// prometheus is a server that scrapes managers and evaluates rules.
type prometheus struct {
	process *process.Process
	folder  string
	url     string
}

const (
	// every is how often targets are scraped and rules evaluated.
	every = "500ms"
	// stopGrace is for what Prometheus writes when it ends.
	stopGrace = 5 * time.Second
)

// startPrometheus runs the real Prometheus until the end of the test. It scrapes managers with the
// client certificate of an administrator.
func startPrometheus(t testing.TB, groups []group, targets ...string) *prometheus {
	t.Helper()
	p := &prometheus{folder: t.TempDir()}
	admin := plane.AdminConfig()
	p.write(t, "client.crt", admin.CertData)
	p.write(t, "client.key", admin.KeyData)
	p.write(t, "rules.yaml", must.Get(yaml.Marshal(map[string]any{"groups": groups}))(t))
	p.write(t, "prometheus.yaml", p.config(t, targets))
	bin := filepath.Join(must.Get(binaries.Root())(t), ".bin", binaries.Prometheus)
	await.That(t, "Prometheus is ready", func(ctx context.Context) error {
		if p.process == nil {
			p.launch(t, bin)
		}
		select {
		case <-p.process.Exited(): // another process has taken the port
			err := p.process.Err()
			p.process = nil
			return fmt.Errorf("it has ended: %w", err)
		default:
		}
		_, err := p.get(ctx, "/-/ready")
		return err
	})
	t.Cleanup(func() {
		if err := p.process.Stop(stopGrace); err != nil {
			t.Error(err)
		}
	})
	return p
}

// launch starts the process on a port that nobody listens on now, outside of the range of outgoing
// connections and of the ports of control planes and managers.
func (p *prometheus) launch(t testing.TB, bin string) {
	t.Helper()
	const first, count = 21000, 4000
	address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))
	listener, err := net.Listen("tcp", address)
	for err != nil {
		address = fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))
		listener, err = net.Listen("tcp", address)
	}
	must.Succeed(t, listener.Close())
	p.url = "http://" + address
	p.process = must.Get(process.Start(process.Spec{
		Name: binaries.Prometheus, Path: bin, Dir: p.folder, LogFile: filepath.Join(p.folder, "prometheus.log"),
		Args: []string{
			"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--storage.tsdb.no-lockfile",
			"--web.listen-address=" + address, "--log.level=warn",
		},
		Env: []string{"GOMEMLIMIT=128MiB"},
	}))(t)
}

func (p *prometheus) write(t testing.TB, name string, content []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(p.folder, name), content, 0o600))
}

// config is the configuration file with some targets, which are URLs of managers.
func (p *prometheus) config(t testing.TB, targets []string) []byte {
	t.Helper()
	addresses := make([]string, 0, len(targets))
	for _, target := range targets {
		addresses = append(addresses, strings.TrimPrefix(target, "https://"))
	}
	return must.Get(yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []map[string]any{{
			"job_name":       job,
			"scheme":         "https",
			"tls_config":     map[string]any{"cert_file": "client.crt", "key_file": "client.key", "insecure_skip_verify": true},
			"static_configs": []map[string]any{{"targets": addresses}},
		}},
	}))(t)
}

// scrape changes the targets.
func (p *prometheus) scrape(t testing.TB, targets ...string) {
	t.Helper()
	p.write(t, "prometheus.yaml", p.config(t, targets))
	must.Succeed(t, p.process.Signal(syscall.SIGHUP))
}

// get reads the data of a response of the API, or the body of another page.
func (p *prometheus) get(ctx context.Context, path string) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, errors.Join(err, p.process.Err()) // if it has ended, with the end of its log
	}
	defer response.Body.Close()
	if !strings.HasPrefix(path, "/api/") {
		if response.StatusCode != http.StatusOK {
			return nil, errors.New(response.Status)
		}
		return nil, nil
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data, nil
}

// series is a result of a query.
type series struct {
	Metric map[string]string
	Value  [2]any // time and value, which is text
}

// query evaluates an expression now.
func (p *prometheus) query(ctx context.Context, expression string) ([]series, error) {
	data, err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression))
	if err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, err)
	}
	var found struct{ Result []series }
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("evaluating %s: %w", expression, err)
	}
	return found.Result, nil
}

// holds waits until an expression has a result.
func (p *prometheus) holds(t testing.TB, expression string) []series {
	t.Helper()
	var all []series
	await.That(t, expression+" has a result", func(ctx context.Context) (err error) {
		if all, err = p.query(ctx, expression); err == nil && len(all) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	return all
}

// evaluated is a rule as Prometheus shows it.
type evaluated struct {
	Name, State, Health, LastError string
	Alerts                         []struct {
		State       string
		Annotations map[string]string
	}
}

// rules returns the rules that have been evaluated, by name.
func (p *prometheus) rules(ctx context.Context) (map[string]evaluated, error) {
	data, err := p.get(ctx, "/api/v1/rules")
	if err != nil {
		return nil, err
	}
	var found struct{ Groups []struct{ Rules []evaluated } }
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, err
	}
	all := map[string]evaluated{}
	for _, g := range found.Groups {
		for _, r := range g.Rules {
			all[r.Name] = r
		}
	}
	return all, nil
}

// alertIs waits until an alert is in a state, and returns it.
func (p *prometheus) alertIs(t testing.TB, name, state string) evaluated {
	t.Helper()
	var rule evaluated
	await.That(t, name+" is "+state, func(ctx context.Context) error {
		all, err := p.rules(ctx)
		if err != nil {
			return err
		}
		rule = all[name]
		if rule.Health != "ok" || rule.State != state {
			return fmt.Errorf("it is %+v", rule)
		}
		return nil
	})
	return rule
}
