package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// head is the beginning of a body with an object, which can be cut off.
type head struct {
	body     []byte
	protobuf bool // else it is JSON
}

// headOf is that of a response whose body begins so.
func headOf(resp *http.Response, body []byte) head {
	return head{body: body, protobuf: strings.Contains(resp.Header.Get("Content-Type"), "protobuf")}
}

// The numbers of fields in protobuf: of runtime.Unknown, which every object is wrapped in after a magic number, of
// every object, of Status, and of ObjectMeta.
const (
	rawField protowire.Number = 2

	metadataField protowire.Number = 1

	messageField protowire.Number = 3

	nameField              protowire.Number = 1
	generateNameField      protowire.Number = 2
	resourceVersionField   protowire.Number = 6
	deletionTimestampField protowire.Number = 9
	ownerReferencesField   protowire.Number = 13
)

// version is metadata.resourceVersion, empty if it is not there as a whole.
func (h head) version() string { return h.metadata("resourceVersion", resourceVersionField) }

// name is metadata.name, empty if it is not there as a whole.
func (h head) name() string { return h.metadata("name", nameField) }

// metadata returns a text of the metadata by its name in JSON or its number in protobuf.
func (h head) metadata(name string, number protowire.Number) string {
	if h.protobuf {
		text, whole := fieldOf(protobufField(h.body, metadataField), number)
		if !whole {
			return ""
		}
		return string(text)
	}
	d := json.NewDecoder(bytes.NewReader(h.body))
	var text string
	if enter(d, "metadata") != nil || enter(d, name) != nil || d.Decode(&text) != nil {
		return ""
	}
	return text
}

// deleting reports whether there is a metadata.deletionTimestamp.
func (h head) deleting() bool {
	if h.protobuf {
		_, there := fieldOf(protobufField(h.body, metadataField), deletionTimestampField)
		return there
	}
	d := json.NewDecoder(bytes.NewReader(h.body))
	return enter(d, "metadata") == nil && enter(d, "deletionTimestamp") == nil
}

// message is that of a Status; what is not a Status is a text.
func (h head) message() string {
	if h.protobuf {
		return strings.ToValidUTF8(string(protobufField(h.body, messageField)), "")
	}
	d := json.NewDecoder(bytes.NewReader(h.body))
	var text string
	if enter(d, "message") == nil && d.Decode(&text) == nil {
		return text
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(h.body), "")), " ")
}

// protobufField returns a field of the object in the beginning of a body, as far as it is there.
func protobufField(body []byte, number protowire.Number) []byte {
	message, wrapped := bytes.CutPrefix(body, protobufPrefix)
	if !wrapped {
		return nil
	}
	raw, _ := fieldOf(message, rawField)
	field, _ := fieldOf(raw, number)
	return field
}

// fieldOf returns what a message, which can be cut off, holds in a field, and whether all of
// that is there.
func fieldOf(message []byte, wanted protowire.Number) (value []byte, whole bool) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return nil, false
			}
			message = message[n:]
			continue
		}
		length, n := protowire.ConsumeVarint(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		whole = uint64(len(message)) >= length
		if field == wanted {
			return message[:min(uint64(len(message)), length)], whole
		}
		if !whole {
			return nil, false
		}
		message = message[length:]
	}
	return nil, false
}

var errNotFound = errors.New("there is no such field")

// enter moves a decoder that stands before an object to the value of a field of it.
func enter(d *json.Decoder, field string) error {
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return errors.Join(err, errNotFound)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil || name == field {
			return err
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return err
		}
	}
	return errNotFound
}
