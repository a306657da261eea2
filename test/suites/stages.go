package suites

import (
	"errors"
	"fmt"
	"strings"
)

const (
	separator = "\n---\n"
	complete  = "name: pod-complete\n"
	ofJobs    = `
    - key: '.metadata.ownerReferences.[].kind'
      operator: 'In'
      values:
      - 'Job'
`
	next = "  next:\n"
	// soon gives a spec the time to see a pod that runs.
	soon = "  delay:\n    durationMilliseconds: 500\n" + next
	// ending is "completes", "fails" or "goes on": what the image, the command and the arguments of a pod's first container
	// amount to.
	ending = `([.spec.containers[0].image] + (.spec.containers[0].command // []) + (.spec.containers[0].args // []) | join(" ")) as $does
        | if $does | test("JOB_COMPLETION_INDEX. % 2") then
            if .metadata.annotations["batch.kubernetes.io/job-completion-index"] | tonumber % 2 == 0 then "completes" else "fails" end
          elif $does | test("exit 1$") then "fails"
          elif $does | test("exit 1|RANDOM|sleep|pause|while|netexec") then "goes on"
          else "completes" end`
)

// condition is one of the expressions by which a stage selects pods.
func condition(key, value string) string {
	return fmt.Sprintf("    - key: '%s'\n      operator: 'In'\n      values:\n      - '%s'\n", key, value)
}

// stages returns kwok's stages, given the standard ones, by which a pod of a Job ends as upstream's specs want:
// `exit 1` fails, and so does an odd index where the index decides; what sleeps or serves goes on; the rest completes.
func stages(standard string) (string, error) {
	var all []string
	for stage := range strings.SplitSeq(standard, separator) {
		if !strings.Contains(stage, complete) {
			all = append(all, stage)
			continue
		}
		if strings.Count(stage, ofJobs) != 1 || strings.Count(stage, next) != 1 {
			return "", fmt.Errorf("kwok's stage that completes pods of Jobs is another than expected:\n%s", stage)
		}
		fails := condition(ending, "fails") + condition(".spec.restartPolicy", "Never")
		all = append(all,
			strings.NewReplacer(ofJobs, ofJobs+condition(ending, "completes"), next, soon).Replace(stage),
			strings.NewReplacer(
				complete, "name: pod-fail\n", ofJobs, ofJobs+fails, next, soon,
				"exitCode: 0", "exitCode: 1", "reason: Completed", "reason: Error", "phase: Succeeded", "phase: Failed",
			).Replace(stage))
	}
	if len(all) == strings.Count(standard, separator)+1 {
		return "", errors.New("kwok has no stage that completes pods")
	}
	return strings.Join(all, separator), nil
}
