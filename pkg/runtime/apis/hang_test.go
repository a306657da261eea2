package apis

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// hanging is a server that stops answering.
type hanging struct {
	*server
	asked, answers chan struct{} // nil while it answers
}

func (s *hanging) ServerGroups() (*metav1.APIGroupList, error) {
	if s.asked != nil {
		s.asked <- struct{}{}
		<-s.answers
	}
	return s.server.ServerGroups()
}

// While an API server does not answer, kinds are mapped by what it said last: who asks for one has no context, and would wait
// with it until the request for discovery ends, even if it is to stop. Pins MGR-257.
func TestTheMapperDoesNotWaitForARefresh(t *testing.T) {
	s := &hanging{server: newServer(deployments)}
	c := New(s, clock.RealClock{})
	m := c.Mapper()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.asked, s.answers = make(chan struct{}), make(chan struct{})
	refreshed := make(chan error, 1)
	go func() { refreshed <- c.Refresh(t.Context()) }()
	<-s.asked
	mapped := make(chan error, 1)
	go func() {
		_, err := m.RESTMapping(schema.GroupKind{Group: deployments.Group, Kind: "Kind"}, deployments.Version)
		mapped <- err
	}()
	select {
	case err := <-mapped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the mapper waits")
	}
	close(s.answers)
	if err := <-refreshed; err != nil {
		t.Error(err)
	}
}
