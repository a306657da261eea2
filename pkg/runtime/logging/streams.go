package logging

import (
	"bufio"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	logsapi "k8s.io/component-base/logs/api/v1"

	"kcmd.dev/pkg/runtime/plain"
)

// textStream returns where text goes, and what holds lines back.
func (o *Output) textStream(c logsapi.OutputRoutingOptions) (io.Writer, *buffered) {
	if !c.SplitStream {
		return safe{o.streams.ErrorStream}, nil
	}
	info, buffer := o.infoStream(c)
	return safe{&split{info: info, problems: o.streams.ErrorStream}}, buffer
}

// safe makes lines safe to show on a terminal. klog quotes a value of one line, and writes one of several lines as it
// is. JSON has none of what a terminal obeys.
type safe struct{ to io.Writer }

func (s safe) Write(line []byte) (int, error) {
	if _, err := io.WriteString(s.to, plain.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// jsonStreams returns the streams of a JSON logger, and what holds lines back. component-base is not
// told of the buffer: its own one has a goroutine that nothing ends.
func (o *Output) jsonStreams(c *logsapi.OutputRoutingOptions) (logsapi.LoggingOptions, *buffered) {
	streams, buffer := o.streams, (*buffered)(nil)
	if c.SplitStream {
		streams.InfoStream, buffer = o.infoStream(*c)
		c.InfoBufferSize = resource.QuantityValue{}
	}
	return streams, buffer
}

// infoStream returns where info messages go if streams are split, and what holds them back.
func (o *Output) infoStream(c logsapi.OutputRoutingOptions) (io.Writer, *buffered) {
	size := c.InfoBufferSize.Value()
	if size <= 0 {
		return o.streams.InfoStream, nil
	}
	buffer := &buffered{to: o.streams.InfoStream, size: int(min(size, maxBuffer))}
	return buffer, buffer
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

// buffered holds lines back until it is full or flushed. A nil one holds nothing back.
type buffered struct {
	to   io.Writer
	size int

	mu     sync.Mutex
	writer *bufio.Writer // nil before the first line: a configuration that is only prepared takes no memory
	ended  bool
}

func (b *buffered) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return b.to.Write(line)
	}
	if b.writer == nil {
		b.writer = bufio.NewWriterSize(b.to, b.size)
	}
	return b.writer.Write(line)
}

func (b *buffered) flush() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer != nil {
		_ = b.writer.Flush()
	}
}

// end flushes for the last time. Later lines are written through: nobody would flush them.
func (b *buffered) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer != nil {
		_ = b.writer.Flush()
	}
	b.writer, b.ended = nil, true
}
