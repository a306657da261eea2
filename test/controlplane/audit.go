package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

const (
	// auditPatience bounds the wait for requests that are under way. It is short because one may
	// depend on an extension that does not answer.
	auditPatience = 5 * time.Second
	// managerGroup holds the service accounts controllers run as.
	managerGroup = "system:serviceaccounts:kube-system"
)

// Audit reads the API server's own record of the requests of the manager: of
// user system:kube-controller-manager, of service accounts in kube-system and of
// Options.AuditUsers. Each request is one event of stage ResponseComplete with
// level Metadata; a watch has one more, of stage ResponseStarted, when it opens. Writes of
// Options.AuditBodies are of level RequestResponse.
//
// The log also reports the arrival of each request. That is not shown, and serves to wait for
// requests whose effect can be seen before they are answered.
type Audit struct {
	path string
	off  bool

	mu       sync.Mutex
	followed Mark                // what is before it is taken into account in underWay
	underWay sets.Set[types.UID] // requests that have arrived, and have no answer yet
}

// Mark is a position in the audit log.
type Mark int64

// Filter selects events.
type Filter func(*auditv1.Event) bool

func (c *ControlPlane) auditPolicyFile() string { return c.path("audit-policy.yaml") }

func (c *ControlPlane) auditLogFile() string { return c.logFile("audit") }

// auditRules say what is audited: the first rule that fits a request counts.
func (o Options) auditRules() []auditv1.PolicyRule {
	users := append([]string{ManagerUser}, o.AuditUsers...)
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
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		Rules:    c.options.auditRules(),
	}
	data, err := yaml.Marshal(policy)
	if err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	err = errors.Join(
		os.WriteFile(c.auditPolicyFile(), data, 0o600),
		os.MkdirAll(filepath.Dir(c.auditLogFile()), 0o700),
	)
	if err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

// Audit returns the audit log. Its methods fail when Options.NoAudit was set.
func (c *ControlPlane) Audit() *Audit { return c.audit }

// Sync returns when every request that arrived before the call has been answered and is in the
// log. A test that has seen the effect of a request, through a watch for instance, may be ahead
// of the answer to it. Requests that are not answered within seconds are not waited for.
func (a *Audit) Sync() error {
	if a.off {
		return errors.New("the audit log is switched off (Options.NoAudit)")
	}
	_, before, err := a.follow()
	if err != nil {
		return fmt.Errorf("synchronizing with the audit log: %w", err)
	}
	patience := time.NewTimer(auditPatience)
	defer patience.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		_, now, err := a.follow()
		if err != nil {
			return fmt.Errorf("synchronizing with the audit log: %w", err)
		}
		if !now.HasAny(before.UnsortedList()...) {
			return nil
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil
		}
	}
}

// Mark returns the current position, after a Sync.
func (a *Audit) Mark() (Mark, error) {
	if err := a.Sync(); err != nil {
		return 0, err
	}
	end, _, err := a.follow()
	if err != nil {
		return 0, fmt.Errorf("reading the audit log: %w", err)
	}
	return end, nil
}

// follow reads what the log has gained. It returns the end and the requests that are under way.
func (a *Audit) follow() (Mark, sets.Set[types.UID], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	data, err := a.read(a.followed)
	if err != nil {
		return 0, nil, err
	}
	if a.underWay == nil {
		a.underWay = sets.New[types.UID]()
	}
	for line := range bytes.Lines(data) {
		var event struct {
			AuditID types.UID     `json:"auditID"`
			Stage   auditv1.Stage `json:"stage"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return 0, nil, err
		}
		if event.Stage == auditv1.StageRequestReceived {
			a.underWay.Insert(event.AuditID)
		} else {
			a.underWay.Delete(event.AuditID)
		}
	}
	a.followed += Mark(len(data))
	return a.followed, a.underWay.Clone(), nil
}

// forget gives up requests that are under way when the API server ends: it does not answer them.
func (a *Audit) forget() error {
	if a.off {
		return nil
	}
	if _, _, err := a.follow(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay.Clear()
	return nil
}

// Since returns the events after mark that pass all filters, in the order the
// requests arrived, after a Sync. Mark 0 is the beginning. They may end in another
// order: a watch reports a write before the write is answered.
func (a *Audit) Since(mark Mark, filters ...Filter) ([]auditv1.Event, error) {
	if err := a.Sync(); err != nil {
		return nil, err
	}
	return a.Written(mark, filters...)
}

// Written is Since without a Sync: what the log holds now.
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
		if event.Stage == auditv1.StageRequestReceived {
			continue
		}
		if !slices.ContainsFunc(filters, func(pass Filter) bool { return !pass(&event) }) {
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	return events, nil
}

// read returns the complete lines after mark.
func (a *Audit) read(mark Mark) ([]byte, error) {
	f, err := os.Open(a.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // before the first request
	}
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
