package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// auditSyncUser sends the requests that mark a position in the log.
	auditSyncUser    = "kcmd-audit-sync"
	auditSyncTimeout = 15 * time.Second
	// managerGroup holds the service accounts controllers run as.
	managerGroup = "system:serviceaccounts:kube-system"
)

// Audit reads the API server's own record of the requests of the manager: of
// user system:kube-controller-manager, of service accounts in kube-system and of
// Options.AuditUsers. Each request is one event of stage ResponseComplete with
// level Metadata; a watch has one more, of stage ResponseStarted, when it opens. Writes of
// Options.AuditBodies are of level RequestResponse.
type Audit struct {
	path   string
	off    bool
	client kubernetes.Interface
	marks  atomic.Int64
}

// Mark is a position in the audit log.
type Mark int64

// Filter selects events.
type Filter func(*auditv1.Event) bool

func (c *ControlPlane) auditPolicyFile() string { return c.path("audit-policy.yaml") }
func (c *ControlPlane) auditLogFile() string    { return c.path("audit.log") }

// auditRules say what is audited: the first rule that fits a request counts.
func (o Options) auditRules() []auditv1.PolicyRule {
	users := append([]string{ManagerUser, auditSyncUser}, o.AuditUsers...)
	var rules []auditv1.PolicyRule
	if len(o.AuditBodies) > 0 {
		rules = append(rules,
			auditv1.PolicyRule{Level: auditv1.LevelRequestResponse, Users: users, Resources: o.AuditBodies, Verbs: writeVerbs()},
			auditv1.PolicyRule{Level: auditv1.LevelRequestResponse, UserGroups: []string{managerGroup}, Resources: o.AuditBodies, Verbs: writeVerbs()},
		)
	}
	return append(rules,
		auditv1.PolicyRule{Level: auditv1.LevelMetadata, Users: users},
		auditv1.PolicyRule{Level: auditv1.LevelMetadata, UserGroups: []string{managerGroup}},
		auditv1.PolicyRule{Level: auditv1.LevelNone},
	)
}

func (c *ControlPlane) writeAuditPolicy() error {
	policy := auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      c.options.auditRules(),
	}
	data, err := yaml.Marshal(policy)
	if err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	if err := os.WriteFile(c.auditPolicyFile(), data, 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

func (c *ControlPlane) newAudit() (*Audit, error) {
	config, err := c.Config(auditSyncUser)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the audit log's client: %w", err)
	}
	return &Audit{path: c.auditLogFile(), client: client, off: c.options.NoAudit}, nil
}

// Audit returns the audit log. Its methods fail when Options.NoAudit was set.
func (c *ControlPlane) Audit() *Audit { return c.audit }

// Sync returns when every request answered before the call is in the log. The
// server writes an event right after it has answered; so Sync sends a request of
// its own, which is answered later, and waits for that one's event. It needs an
// API server that answers.
func (a *Audit) Sync() error {
	_, err := a.sync()
	return err
}

// Mark returns the current position, after a Sync.
func (a *Audit) Mark() (Mark, error) { return a.sync() }

func (a *Audit) sync() (Mark, error) {
	if a.off {
		return 0, errors.New("the audit log is switched off (Options.NoAudit)")
	}
	info, err := os.Stat(a.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("synchronizing with the audit log: %w", err)
	}
	var from Mark
	if err == nil {
		from = Mark(info.Size())
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditSyncTimeout)
	defer cancel()
	sign := fmt.Sprintf("%s=%d-%d", auditSyncUser, time.Now().UnixNano(), a.marks.Add(1))
	if _, err := a.client.Discovery().RESTClient().Get().RequestURI("/version?" + sign).DoRaw(ctx); err != nil {
		return 0, fmt.Errorf("synchronizing with the audit log: %w", err)
	}
	var mark Mark
	err = pollEvery(ctx, 2*time.Millisecond, func(context.Context) error {
		data, err := a.read(from)
		if err != nil {
			return err
		}
		at := bytes.Index(data, []byte(sign))
		if at < 0 {
			return errors.New("the request is not in the log")
		}
		mark = from + Mark(at+bytes.IndexByte(data[at:], '\n')+1)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("synchronizing with the audit log: %w", err)
	}
	return mark, nil
}

// Since returns the events after mark that pass all filters, in the order the
// requests ended, after a Sync. Mark 0 is the beginning.
func (a *Audit) Since(mark Mark, filters ...Filter) ([]auditv1.Event, error) {
	if err := a.Sync(); err != nil {
		return nil, err
	}
	return a.Written(mark, filters...)
}

// Written is Since without a Sync: what the log holds now. It needs no API
// server.
func (a *Audit) Written(mark Mark, filters ...Filter) ([]auditv1.Event, error) {
	data, err := a.read(mark)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	var events []auditv1.Event
	for line := range bytes.Lines(data) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if event.User.Username == auditSyncUser {
			continue
		}
		if !slices.ContainsFunc(filters, func(pass Filter) bool { return !pass(&event) }) {
			events = append(events, event)
		}
	}
	return events, nil
}

// read returns the complete lines after mark.
func (a *Audit) read(mark Mark) ([]byte, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.NewSectionReader(f, int64(mark), 1<<62))
	if err != nil {
		return nil, err
	}
	return data[:bytes.LastIndexByte(data, '\n')+1], nil
}

// ByUser passes requests of any of the users.
func ByUser(users ...string) Filter {
	return func(e *auditv1.Event) bool { return slices.Contains(users, e.User.Username) }
}

// ByUserAgent passes requests whose user agent begins with prefix.
func ByUserAgent(prefix string) Filter {
	return func(e *auditv1.Event) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// ByVerb passes requests with any of the verbs.
func ByVerb(verbs ...string) Filter {
	return func(e *auditv1.Event) bool { return slices.Contains(verbs, e.Verb) }
}

// Writes passes requests that can change something.
func Writes() Filter { return ByVerb(writeVerbs()...) }

func writeVerbs() []string {
	return []string{"create", "update", "patch", "delete", "deletecollection"}
}

// ByResource passes requests for any of the resources, each written as "pods" or,
// for a subresource, "pods/status".
func ByResource(resources ...string) Filter {
	return func(e *auditv1.Event) bool {
		if e.ObjectRef == nil {
			return false
		}
		name := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			name += "/" + e.ObjectRef.Subresource
		}
		return slices.Contains(resources, name)
	}
}

// ByNamespace passes requests in a namespace.
func ByNamespace(namespace string) Filter {
	return func(e *auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Namespace == namespace }
}

// ByStage passes events of a stage.
func ByStage(stage auditv1.Stage) Filter {
	return func(e *auditv1.Event) bool { return e.Stage == stage }
}
