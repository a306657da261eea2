package logging

import (
	"bufio"
	"io"
	"sync"

	logsapi "k8s.io/component-base/logs/api/v1"
)

// textStreams returns where text goes, and how to flush it.
func (o *Output) textStreams(c logsapi.TextOptions) (io.Writer, func()) {
	if !c.SplitStream {
		return o.streams.ErrorStream, func() {}
	}
	size := c.InfoBufferSize.Value()
	if size <= 0 {
		return &split{info: o.streams.InfoStream, problems: o.streams.ErrorStream}, func() {}
	}
	info := &buffered{writer: bufio.NewWriterSize(o.streams.InfoStream, int(min(size, maxBuffer)))}
	return &split{info: info, problems: o.streams.ErrorStream}, info.flush
}

// maxBuffer is the largest buffer of info messages, in bytes.
const maxBuffer = 2 << 30

// split writes lines of severity info to one stream and the others to another. klog's text
// format begins a line with the first letter of its severity.
type split struct{ info, problems io.Writer }

func (s *split) Write(line []byte) (int, error) {
	if len(line) > 0 && line[0] == 'I' {
		return s.info.Write(line)
	}
	return s.problems.Write(line)
}

// buffered holds lines back until it is full or flushed.
type buffered struct {
	mu     sync.Mutex
	writer *bufio.Writer
}

func (b *buffered) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writer.Write(line)
}

func (b *buffered) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.writer.Flush()
}
