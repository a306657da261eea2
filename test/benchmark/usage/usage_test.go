package usage

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	for name, tc := range map[string]struct {
		stat  string
		want  time.Duration
		fails bool
	}{
		"plain":          {stat: "12 (etcd) S 1 12 12 0 -1 4194560 2406 0 5 0 150 25 0 0 20 0 11 0 5000 1 2", want: 1750 * time.Millisecond},
		"odd command":    {stat: "12 (a ) (b) S 1 12 12 0 -1 4194560 2406 0 5 0 1 2 0 0 20 0 11 0 5000 1 2", want: 30 * time.Millisecond},
		"cut off":        {stat: "12 (etcd) S 1 12", fails: true},
		"no number":      {stat: "12 (etcd) S 1 12 12 0 -1 4194560 2406 0 5 0 x 25 0 0 20 0 11 0 5000", fails: true},
		"without braces": {stat: "", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseCPU(tc.stat)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestParseMemory(t *testing.T) {
	got, err := parseMemory("Name:\tx\nVmPeak:\t 999 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nRssAnon:\t    512 kB\n")
	if err != nil || got.now != 1<<20 || got.anonymous != 1<<19 || got.peak != 2<<20 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, status := range []string{"", "VmHWM: 1 kB\nRssAnon: 1 kB\n", "VmRSS: 1 kB\nVmHWM: 1 kB\n", "VmRSS: 1 kB\nRssAnon: 1 kB\n", "VmRSS:\nVmHWM: 1 kB\nRssAnon: 1 kB\n", "VmRSS: a kB\nVmHWM: 1 kB\nRssAnon: 1 kB\n"} {
		if got, err := parseMemory(status); err == nil {
			t.Errorf("%q: got %+v, want an error", status, got)
		}
	}
}

func TestParseReceived(t *testing.T) {
	if got, err := parseReceived("rchar: 323934931\nwchar: 323929600\nsyscr: 632687\n"); err != nil || got != 323934931 {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestOwnProcess compares what is read of this process with what it does.
func TestOwnProcess(t *testing.T) {
	// What an earlier run of the test has left would be used again, and nothing grow.
	debug.FreeOSMemory()
	if err := ResetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	held := make([]byte, size)
	for i := range held {
		held[i] = byte(i)
	}
	const work = 200 * time.Millisecond
	for used := before.CPU; used < before.CPU+work; {
		held[len(held)/2]++
		if used, err = Self(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after.CPU - before.CPU; used < work-2*tick {
		t.Errorf("%v of work are %v of processor time", work, used)
	}
	if after.PeakRSS < before.RSS+size/2 {
		t.Errorf("the peak is %d after %d more bytes than %d were written", after.PeakRSS, size, before.RSS)
	}
	if after.Received <= before.Received {
		t.Errorf("nothing was read, %d bytes before and %d now", before.Received, after.Received)
	}
	runtime.KeepAlive(held)
	own, err := Self()
	if err != nil || own < after.CPU-2*tick {
		t.Errorf("the own processor time is %v, %v; want at least %v", own, err, after.CPU)
	}
}

func TestNoProcess(t *testing.T) {
	// Process ids end at 4194304.
	if _, err := Of(1 << 23); err == nil {
		t.Error("a process that cannot exist has a usage")
	}
	if err := ResetPeak(1 << 23); err == nil {
		t.Error("its peak can be reset")
	}
}
