package wire

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
)

func partial(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: *replica(1).ObjectMeta.DeepCopy(),
	}
	if change != nil {
		change(p)
	}
	return p
}

// frames is a stream of events as an API server sends it.
func frames(t testing.TB, sent ...watch.Event) []byte {
	t.Helper()
	info := protobuf(usual())
	var stream bytes.Buffer
	for _, event := range sent {
		raw := must.Get(runtime.Encode(info.Serializer, event.Object))(t)
		encoded := must.Get((&metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Raw: raw}}).Marshal())(t)
		must.Get(info.StreamSerializer.Framer.NewFrameWriter(&stream).Write(encoded))(t)
	}
	return stream.Bytes()
}

func TestWatchedMetadataHasNoManagedFields(t *testing.T) {
	sent := []watch.Event{
		{Type: watch.Added, Object: partial(nil)},
		{Type: watch.Modified, Object: partial(func(p *metav1.PartialObjectMetadata) { p.ManagedFields = nil })},
		{Type: watch.Modified, Object: partial(func(p *metav1.PartialObjectMetadata) { p.ManagedFields = append(p.ManagedFields, p.ManagedFields...) })},
		{Type: watch.Deleted, Object: partial(func(p *metav1.PartialObjectMetadata) { p.DeletionTimestamp = ptr.To(metav1.Unix(7, 0)) })},
		{Type: watch.Bookmark, Object: partial(func(p *metav1.PartialObjectMetadata) {
			p.ObjectMeta = metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
		})},
		{Type: watch.Error, Object: &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Message: "too old", Code: 410}},
	}
	base := metadata.ConfigFor(&rest.Config{}).NegotiatedSerializer
	decoder := decoderOf(serializer(base, objects{kind: partialType, decode: decodePartial}), frames(t, sent...))
	for n, event := range sent {
		kind, got, err := decoder.Decode()
		if err != nil || kind != event.Type {
			t.Fatalf("event %d is %s, error %v", n, kind, err)
		}
		want := event.Object.DeepCopyObject()
		if p, ok := want.(*metav1.PartialObjectMetadata); ok {
			p.ManagedFields = nil
		}
		want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestUnexpectedMetadataIsDecodedWhole(t *testing.T) {
	valid := must.Get((&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: replica(1).ManagedFields}}).Marshal())(t)
	if decodePartial(valid) == nil {
		t.Fatal("valid metadata is not decoded")
	}
	afterManaged := append([]byte{0x0a, 0x05, 0x8a, 0x01, 0x00}, 0x0a, 0x00) // managedFields, and then a name
	for name, encoded := range map[string][]byte{
		"nothing":                   {},
		"two of them":               append(bytes.Clone(valid), valid...),
		"another field":             {0x12, 0x00},
		"a number":                  {0x08, 0x01},
		"cut off":                   valid[:len(valid)-1],
		"a broken name":             {0x0a, 0x02, 0x0a, 0x05},
		"a name that is none":       {0x0a, 0x02, 0x08, 0x05},
		"fields after the last one": afterManaged,
	} {
		if got := decodePartial(encoded); got != nil {
			t.Errorf("%s is decoded as %v", name, got)
		}
	}
}

// The watches of the client are those of client-go's, which cannot be given another serializer.
func TestTheMetadataClientWatchesAsUsual(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.String()+" "+r.Header.Get("Accept"))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	ordinary := must.Get(metadata.NewForConfig(config))(t)
	ours := must.Get(MetadataClient(ordinary, config))(t)
	options := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "metadata.name=x", ResourceVersion: "7", AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, TimeoutSeconds: ptr.To(int64(9)),
	}
	for _, r := range []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "deployments"}} {
		for _, o := range []metav1.ListOptions{{}, options} {
			for _, namespace := range []string{"", "ns"} {
				seen = nil
				for _, client := range []metadata.Interface{ordinary, ours} {
					ask := func(ctx context.Context) {
						w, err := client.Resource(r).Namespace(namespace).Watch(ctx, o)
						if err == nil {
							w.Stop()
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					ask(ctx)
					cancel()
				}
				if len(seen) != 2 || seen[0] != seen[1] {
					t.Errorf("watches of %s in %q are %q", r, namespace, seen)
				}
			}
		}
		seen = nil
		_, _ = ordinary.Resource(r).Watch(t.Context(), options)
		_, _ = ours.Resource(r).Watch(t.Context(), options)
		if len(seen) != 2 || seen[0] != seen[1] {
			t.Errorf("watches of %s are %q", r, seen)
		}
	}
}
