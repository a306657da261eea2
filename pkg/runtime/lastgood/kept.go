package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kept is a configuration that was in force.
type Kept struct {
	// Text is the content of its file.
	Text []byte
	// Hash identifies the configuration, as in the status of the process.
	Hash string
	// Program is the version of the program in which it was in force.
	Program string
	// At is when it came into force, to the second.
	At time.Time
}

const (
	// mark begins the line after the text.
	mark = "# Kept by kube-controller-manager, do not edit: "
	// seal stands between the facts in that line and the checksum of everything before it.
	seal = " sha256:"
	// format is increased when another version of the program could not read the line.
	format = 1
)

// facts are what the line says about the text.
type facts struct {
	Format  int       `json:"format"`
	File    string    `json:"file"`
	Hash    string    `json:"hash"`
	Program string    `json:"program"`
	At      time.Time `json:"at"`
	// Bytes is the length of the text: a line break may have been added to it.
	Bytes int `json:"bytes"`
}

var (
	errIncomplete = errors.New("it is incomplete, or was not written by this program")
	errChanged    = errors.New("its checksum is wrong: it was changed or is damaged")
)

// lineAfter returns the line that follows the text of a configuration, which is that of a file.
func lineAfter(k Kept, file string) ([]byte, error) {
	said, err := json.Marshal(facts{Format: format, File: file, Hash: k.Hash, Program: k.Program, At: k.At.UTC().Truncate(time.Second), Bytes: len(k.Text)})
	if err != nil {
		return nil, fmt.Errorf("describing the configuration: %w", err)
	}
	var line bytes.Buffer
	if !bytes.HasSuffix(k.Text, []byte("\n")) {
		line.WriteByte('\n')
	}
	line.WriteString(mark)
	line.Write(said)
	sum := sha256.New()
	sum.Write(k.Text)
	sum.Write(line.Bytes())
	line.WriteString(seal + hex.EncodeToString(sum.Sum(nil)) + "\n")
	return line.Bytes(), nil
}

// decode returns what was kept of a file.
func decode(data []byte, file string) (*Kept, error) {
	body, ended := bytes.CutSuffix(data, []byte("\n"))
	start := bytes.LastIndexByte(body, '\n') + 1
	line, marked := bytes.CutPrefix(body[start:], []byte(mark))
	end := bytes.LastIndex(line, []byte(seal))
	if !ended || !marked || end < 0 {
		return nil, errIncomplete
	}
	sum := sha256.Sum256(body[:start+len(mark)+end])
	if string(line[end+len(seal):]) != hex.EncodeToString(sum[:]) {
		return nil, errChanged
	}
	var said facts
	if err := json.Unmarshal(line[:end], &said); err != nil {
		return nil, fmt.Errorf("decoding its last line: %w", err)
	}
	switch added := start - said.Bytes; {
	case said.Format != format:
		return nil, fmt.Errorf("it has format %d, and this version of the program reads format %d", said.Format, format)
	case said.File != file:
		return nil, fmt.Errorf("it was kept for another file, %s", said.File)
	case said.Bytes < 0 || added < 0 || added > 1:
		return nil, errChanged
	}
	return &Kept{Text: body[:said.Bytes:said.Bytes], Hash: said.Hash, Program: said.Program, At: said.At}, nil
}
