package suites

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	separator = "\n---\n"
	next      = "  next:\n"
	// briefly gives a spec the time to see a pod that runs, slowly to see one that ends since it was deleted, and inTheEnd
	// to evict one.
	briefly  = "500"
	slowly   = "5000"
	inTheEnd = "20000"
	// ending is "completes", "lasts", "fails", "varies" or "goes on": what the image, the command and the arguments of a
	// pod's first container amount to.
	ending = `([.spec.containers[0].image] + (.spec.containers[0].command // []) + (.spec.containers[0].args // []) | join(" ")) as $does
        | if $does | test("JOB_COMPLETION_INDEX. % 2") then
            if .metadata.annotations["batch.kubernetes.io/job-completion-index"] | tonumber % 2 == 0 then "completes" else "fails" end
          elif $does | test("RANDOM") then "varies"
          elif .spec.restartPolicy == "OnFailure" and ($does | test("exit 0")) then "completes"
          elif $does | test("-r /data/foo-") then "lasts"
          elif $does | test("exit 1$|/bin/false$") then "fails"
          elif $does | test("exit 1|sleep|pause|while|netexec") then "goes on"
          else "completes" end`
	// restarted says whether a container has failed and been started again.
	restarted = `if [.status.containerStatuses[]?.restartCount] | add > 0 then "yes" else "no" end`
	// probed is for how many seconds the readiness probe of a pod waits.
	probed = `[.spec.containers[].readinessProbe.initialDelaySeconds // 0] | max`
	// readiness comes "soon", or "never" if a probe waits for longer than any spec.
	readiness = `if (` + probed + `) < 60 then "soon" else "never" end`
	// image is "missing" if that of a container cannot be pulled.
	image = `if [.spec.containers[].image | test("non-existent|:404$")] | any then "missing" else "there" end`
	// stopping is "killed" if a pod of a Job was running when it was deleted.
	stopping = `if ([.metadata.ownerReferences[]?.kind] | index("Job")) and (.status.phase == "Running" or .status.phase == "Pending")
        then "killed" else "ended" end`
	// killed is what becomes of the containers of such a pod.
	killed = `    statusTemplate: |
      {{ $now := Now }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: false
        restartCount: 0
        started: false
        state:
          terminated:
            exitCode: 137
            finishedAt: {{ $now | Quote }}
            reason: Error
            startedAt: {{ $now | Quote }}
      {{ end }}
      phase: Failed
`
)

// condition is one of the expressions by which a stage selects pods.
func condition(key string, values ...string) string {
	return fmt.Sprintf("    - key: '%s'\n      operator: 'In'\n      values:\n      - '%s'\n", key, strings.Join(values, "'\n      - '"))
}

// stages returns kwok's stages, given the standard ones, by which pods do what upstream's specs want. A pod of a Job
// ends: `exit 1` fails, and so does an odd index where the index decides, and one of two where chance decides; what
// sleeps or serves goes on; the rest completes. What fails is started again once if its pod says so. A pod of a Job that
// is deleted while it runs has failed before it is gone. A pod with an image that does not exist never runs, and one
// whose readiness probe waits for minutes is never ready.
func stages(standard string) (string, error) {
	edits := map[string]func(stage) []stage{
		"pod-ready":    stage.inTime,
		"pod-complete": stage.completedOrFailed,
		"pod-delete":   stage.onceEnded,
	}
	var all []string
	for text := range strings.SplitSeq(standard, separator) {
		s := stage(text)
		edit, found := edits[s.name()]
		if !found {
			all = append(all, text)
			continue
		}
		delete(edits, s.name())
		if strings.Count(text, next) != 1 {
			return "", fmt.Errorf("kwok's stage %s is another than expected:\n%s", s.name(), text)
		}
		for _, edited := range edit(s) {
			all = append(all, string(edited))
		}
	}
	for name := range edits {
		return "", fmt.Errorf("kwok has no stage %s", name)
	}
	return strings.Join(all, separator), nil
}

// stage is the manifest of a stage, which has one line that is next.
type stage string

var stageName = regexp.MustCompile(`(?m)^  name: (\S+)$`)

func (s stage) name() string {
	if match := stageName.FindStringSubmatch(string(s)); match != nil {
		return match[1]
	}
	return ""
}

func (s stage) named(name string) stage {
	return s.replaced("  name: "+s.name()+"\n", "  name: "+name+"\n")
}

func (s stage) replaced(pairs ...string) stage {
	return stage(strings.NewReplacer(pairs...).Replace(string(s)))
}

// selecting is the stage with one more condition, which is the last of its selector.
func (s stage) selecting(condition string) stage { return s.replaced(next, condition+next) }

// after is the stage with a delay of milliseconds.
func (s stage) after(milliseconds string) stage {
	return s.replaced(next, "  delay:\n    durationMilliseconds: "+milliseconds+"\n"+next)
}

func (s stage) inTime() []stage {
	pulled := s.selecting(condition(image, "there"))
	yes, no := "        status: \"True\"\n", "        status: \"False\"\n"
	return []stage{
		pulled.selecting(condition(readiness, "soon")),
		pulled.selecting(condition(readiness, "never")).named("pod-run").replaced(
			yes+"        type: Ready\n", no+"        type: Ready\n",
			yes+"        type: ContainersReady\n", no+"        type: ContainersReady\n",
			"ready: true", "ready: false"),
	}
}

func (s stage) completedOrFailed() []stage {
	failed := s.replaced("exitCode: 0", "exitCode: 1", "reason: Completed", "reason: Error")
	return []stage{
		s.selecting(condition(ending, "completes", "varies")).after(briefly),
		s.selecting(condition(ending, "lasts")).after(inTheEnd).named("pod-complete-later"),
		failed.selecting(condition(ending, "fails", "varies")+condition(".spec.restartPolicy", "Never")).after(briefly).
			named("pod-fail").replaced("phase: Succeeded", "phase: Failed"),
		failed.selecting(condition(ending, "fails")+condition(".spec.restartPolicy", "OnFailure")+condition(restarted, "no")).
			after(briefly).named("pod-restart").replaced("phase: Succeeded", "phase: Running", "restartCount: 0", "restartCount: 1"),
	}
}

func (s stage) onceEnded() []stage {
	selector, _, _ := strings.Cut(string(s), next)
	return []stage{
		stage(selector + next + killed).selecting(condition(stopping, "killed")).after(slowly).named("pod-kill"),
		s.selecting(condition(stopping, "ended")),
	}
}
