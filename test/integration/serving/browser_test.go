package serving

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kcmd.dev/test/await"
)

// browser is a headless Chromium, spoken to in the DevTools protocol over two pipes: JSON
// messages, each ended by a zero byte.
type browser struct {
	to      io.WriteCloser
	session string

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	seen    []message // events
	broken  error
}

// message is a command, an answer or an event of the protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// chromium is the path of the program. Without it, the test is skipped outside of CI.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const how = "the status page is tested in Chromium, which is not installed: run `make chromium` as root, " +
		"or apt-get install -y --no-install-recommends chromium"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}

// openBrowser starts Chromium with an empty page, until the end of the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	home := t.TempDir()
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-breakpad", "--disable-crash-reporter", // which would leave the process group
		"--user-data-dir="+home, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, ours} // file descriptors 3 and 4
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.WaitDelay = patience
	// Its other processes notice its end a little later, and write into its folder until then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), ours.Close()
	b := &browser{to: to, waiting: map[int]chan message{}}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		b.listen(from)
	}()
	t.Cleanup(func() {
		kill()
		_ = cmd.Wait()
		_, _ = to.Close(), from.Close()
		<-listening
		err := await.Nil(context.WithoutCancel(t.Context()), patience, func(context.Context) error { return groupEnded(cmd.Process.Pid) })
		if err != nil {
			t.Error(err)
		}
	})
	b.attach(t)
	return b
}

// groupEnded is nil if no process of a group runs.
func groupEnded(group int) error {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The second field is in parentheses and may hold spaces. The third is the state, the fifth the group.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return fmt.Errorf("a process of the browser runs: %s", stat)
		}
	}
	return nil
}

// attach opens a page and reports everything that happens in it.
func (b *browser) attach(t *testing.T) {
	t.Helper()
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.call(t, domain+".enable", nil, nil)
	}
	b.call(t, "Security.setIgnoreCertificateErrors", map[string]any{"ignore": true}, nil)
}

// listen takes what the browser sends, until it ends.
func (b *browser) listen(from io.Reader) {
	messages := bufio.NewReader(from)
	for {
		data, err := messages.ReadBytes(0)
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if err == nil {
			err = json.Unmarshal(data[:len(data)-1], &m)
		}
		b.mu.Lock()
		if err != nil {
			b.broken = fmt.Errorf("the browser has ended: %w", err)
			for _, answer := range b.waiting {
				close(answer)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		m.message.Params = m.Params
		if answer, ok := b.waiting[m.ID]; ok {
			delete(b.waiting, m.ID)
			answer <- m.message
		} else {
			b.seen = append(b.seen, m.message)
		}
		b.mu.Unlock()
	}
}

// call carries out a command.
func (b *browser) call(t *testing.T, method string, params, result any) {
	t.Helper()
	answer, err := b.send(message{Method: method, Session: b.session, Params: params})
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	select {
	case got, ok := <-answer:
		switch {
		case !ok:
			t.Fatalf("%s: the browser has ended", method)
		case got.Error != nil:
			t.Fatalf("%s: %s", method, got.Error.Message)
		case result != nil:
			if err := json.Unmarshal(got.Result, result); err != nil {
				t.Fatalf("%s: %v in %s", method, err, got.Result)
			}
		}
	case <-time.After(patience):
		t.Fatalf("%s: no answer", method)
	}
}

func (b *browser) send(m message) (<-chan message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	b.next++
	m.ID = b.next
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	b.waiting[m.ID] = answer
	_, err = b.to.Write(append(data, 0))
	return answer, err
}

// open loads a page and forgets what happened before.
func (b *browser) open(t *testing.T, url string, header map[string]string) {
	t.Helper()
	b.call(t, "Network.setExtraHTTPHeaders", map[string]any{"headers": header}, nil)
	b.mu.Lock()
	b.seen = nil
	b.mu.Unlock()
	var navigated struct{ ErrorText string }
	b.call(t, "Page.navigate", map[string]any{"url": url}, &navigated)
	if navigated.ErrorText != "" {
		t.Fatalf("loading %s: %s", url, navigated.ErrorText)
	}
	await.That(t, "the page is loaded", func(context.Context) error {
		if len(b.events("Page.loadEventFired")) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// events are the parameters of the events with one of some names.
func (b *browser) events(methods ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for _, m := range b.seen {
		if slices.Contains(methods, m.Method) {
			params, _ := m.Params.(json.RawMessage)
			found = append(found, string(params))
		}
	}
	return found
}

// evaluate returns the value of an expression in the page.
func (b *browser) evaluate(t *testing.T, expression string, value any) {
	t.Helper()
	var evaluated struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &evaluated)
	if len(evaluated.ExceptionDetails) > 0 {
		t.Fatalf("evaluating %s: %s", expression, evaluated.ExceptionDetails)
	}
	if err := json.Unmarshal(evaluated.Result.Value, value); err != nil {
		t.Fatalf("evaluating %s: %v", expression, err)
	}
}

// text is what a reader sees of the first element that a selector matches.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	var text string
	b.evaluate(t, fmt.Sprintf("(document.querySelector(%q)||{innerText:''}).innerText", selector), &text)
	return strings.TrimSpace(text)
}

// resize makes the screen that wide, in CSS pixels; one with a scale of more than 1 is that
// of a phone.
func (b *browser) resize(t *testing.T, width, scale int) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 800, "deviceScaleFactor": scale, "mobile": scale > 1,
	}, nil)
}

// screenshot writes a picture of the page into the folder that KCMD_SCREENSHOTS names.
func (b *browser) screenshot(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("KCMD_SCREENSHOTS")
	if folder == "" {
		return
	}
	var picture struct{ Data []byte }
	b.call(t, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &picture)
	if err := os.WriteFile(folder+"/"+name+".png", picture.Data, 0o600); err != nil {
		t.Fatal(err)
	}
}
