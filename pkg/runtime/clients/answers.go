package clients

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
)

// answerTransport asks for the metadata alone where a writer reads no more of the answer, see
// controller.OnlyMetadata. It serves typed clients, which accept protobuf. They know the type that they expect and
// are not told another: a PartialObjectMetadata has its metadata where every object has it.
type answerTransport struct{ layer }

// acceptMetadata is preferred to what a client accepts otherwise.
const acceptMetadata = runtime.ContentTypeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"

// RoundTrip implements http.RoundTripper.
func (t *answerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	accept := req.Header.Get("Accept")
	if req.Method == http.MethodGet || !controller.WantsOnlyMetadata(req.Context()) || accept != runtime.ContentTypeProtobuf && !strings.HasPrefix(accept, runtime.ContentTypeProtobuf+",") {
		return t.next.RoundTrip(req)
	}
	changed := *req
	changed.Header = req.Header.Clone()
	changed.Header.Set("Accept", acceptMetadata+accept)
	resp, err := t.next.RoundTrip(&changed)
	if err != nil {
		return nil, err
	}
	resp.Body = &metadataBody{ReadCloser: resp.Body}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

// metadataPrefix begins every PartialObjectMetadata: the magic number and the type, in the first field of
// runtime.Unknown.
var metadataPrefix = func() []byte {
	var typeMeta []byte
	for i, value := range []string{metav1.SchemeGroupVersion.String(), "PartialObjectMetadata"} {
		typeMeta = protowire.AppendTag(typeMeta, protowire.Number(i+1), protowire.BytesType)
		typeMeta = protowire.AppendString(typeMeta, value)
	}
	prefix := protowire.AppendTag(bytes.Clone(protobufPrefix), 1, protowire.BytesType)
	return protowire.AppendBytes(prefix, typeMeta)
}()

// metadataBody is a body without the type if that is PartialObjectMetadata.
type metadataBody struct {
	io.ReadCloser
	begun bool
	head  []byte // of what is left to read
}

// Read implements io.Reader.
func (b *metadataBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begin()
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	return b.ReadCloser.Read(p)
}

func (b *metadataBody) begin() {
	b.begun = true
	head := make([]byte, len(metadataPrefix))
	n, _ := io.ReadFull(b.ReadCloser, head) // what a body has ended with, it returns again
	b.head = head[:n]
	if bytes.Equal(b.head, metadataPrefix) {
		b.head = protobufPrefix
	}
}
