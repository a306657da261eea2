package faultproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/test/await"
)

// streamOf returns a stream of what the API server sends.
func streamOf(t *testing.T, p *Proxy, contentType string, body io.Reader) *stream {
	t.Helper()
	answer := &http.Response{Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(body)}
	s := newStream(t.Context(), p, attributes{verb: "watch"}, answer)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const (
	jsonWatch     = "application/json"
	protobufWatch = "application/vnd.kubernetes.protobuf;stream=watch"
)

// framed returns an event of a ConfigMap as a watch sends it.
func framed(t *testing.T, contentType string, e watch.EventType, name string) string {
	t.Helper()
	if contentType == jsonWatch {
		return `{"type":"` + string(e) + `","object":{"kind":"ConfigMap","metadata":{"namespace":"default","name":"` + name + `","uid":"u","resourceVersion":"7"}}}` + "\n"
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", ResourceVersion: "7"}, Data: map[string]string{"a": "b"}}
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	event, err := (&metav1.WatchEvent{Type: string(e), Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), envelope...)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(event)))) + string(event)
}

func TestEventsPassUnchanged(t *testing.T) {
	for _, contentType := range []string{jsonWatch, protobufWatch, "application/cbor-seq", ""} {
		t.Run(contentType, func(t *testing.T) {
			long := framed(t, contentType, watch.Modified, strings.Repeat("long", 100_000))
			whole := framed(t, contentType, watch.Added, "a") + long + framed(t, contentType, watch.Deleted, "b")
			for name, sent := range map[string]string{"whole": whole, "broken off": whole[:len(whole)-5], "nothing": ""} {
				for pace, body := range map[string]io.Reader{"at once": strings.NewReader(sent), "in pieces": iotest.HalfReader(strings.NewReader(sent))} {
					p := &Proxy{}
					p.DropEvents(Requests{Namespace: "other"}, func(Event) bool { return true })
					got, err := io.ReadAll(streamOf(t, p, contentType, body))
					if string(got) != sent {
						t.Errorf("%s, %s: got %d bytes of %d", name, pace, len(got), len(sent))
					}
					if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("%s, %s: %v", name, pace, err)
					}
				}
			}
		})
	}
}

func TestEventsAreDecodedForFaultsThatAsk(t *testing.T) {
	for _, contentType := range []string{jsonWatch, protobufWatch} {
		t.Run(contentType, func(t *testing.T) {
			a, b := framed(t, contentType, watch.Added, "a"), framed(t, contentType, watch.Modified, "b")
			p := &Proxy{}
			asked := make(chan Event, 2)
			p.DropEvents(Requests{Namespace: "default", Name: "a"}, func(e Event) bool {
				asked <- e
				return true
			})
			got, err := io.ReadAll(streamOf(t, p, contentType, strings.NewReader(a+b)))
			if err != nil || string(got) != b {
				t.Errorf("got %q (%v), want %q", got, err, b)
			}
			want := Event{Type: watch.Added, Namespace: "default", Name: "a", UID: "u", ResourceVersion: "7"}
			if len(asked) != 1 || <-asked != want {
				t.Errorf("the fault was asked for other events than %+v", want)
			}
		})
	}
}

func TestErrorsAndBookmarksAreNotDropped(t *testing.T) {
	for _, contentType := range []string{jsonWatch, protobufWatch} {
		for _, e := range []watch.EventType{watch.Error, watch.Bookmark} {
			p := &Proxy{}
			p.DropEvents(Requests{}, func(Event) bool { return true })
			sent := framed(t, contentType, e, "")
			if got, err := io.ReadAll(streamOf(t, p, contentType, strings.NewReader(sent))); err != nil || string(got) != sent {
				t.Errorf("%s in %s: got %q (%v)", e, contentType, got, err)
			}
		}
	}
}

func TestEndOfAWatchComesAfterItsEvents(t *testing.T) {
	for _, contentType := range []string{jsonWatch, "application/unheard-of"} {
		sent := framed(t, jsonWatch, watch.Added, "a")
		p := &Proxy{}
		held := p.HoldEvents(Requests{Verbs: []string{"watch"}})
		s := streamOf(t, p, contentType, strings.NewReader(sent))
		await.True(t, "the event has come", func() bool { return held.Hits() == 1 })
		later := p.HoldEvents(Requests{}) // not in force when the event came
		read := make(chan []byte, 1)
		go func() {
			got, err := io.ReadAll(s)
			if err != nil {
				t.Error(err)
			}
			read <- got
		}()
		select {
		case got := <-read:
			t.Errorf("a held watch told %q", got)
		case <-time.After(20 * time.Millisecond):
		}
		held.Lift()
		if got := <-read; string(got) != sent {
			t.Errorf("got %q", got)
		}
		if later.Hits() != 0 {
			t.Error("a fault concerned what came before it")
		}
	}
}

func TestAbsurdLengthEndsTheWatch(t *testing.T) {
	sent := bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 0})
	if _, err := io.ReadAll(streamOf(t, &Proxy{}, protobufWatch, sent)); err == nil {
		t.Error("the watch ended well")
	}
}
