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
	// command is what the first container of a pod is told to do.
	command = `([.spec.containers[0].command // [], .spec.containers[0].args // []] | flatten | join(" "))`
)

// condition is one of the expressions by which a stage selects pods.
func condition(key, operator, value string) string {
	return fmt.Sprintf("    - key: '%s'\n      operator: '%s'\n      values:\n      - '%s'\n", key, operator, value)
}

// stages returns kwok's stages, given the standard ones, by which a pod of a Job ends as the commands of upstream's specs
// say: `exit 1` fails, what sleeps or serves goes on, and everything else completes.
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
		goesOn := condition(command+` | test("sleep|exit 1|RANDOM|pause|while|netexec")`, "NotIn", "true")
		fails := condition(command+` | test("exit 1$")`, "In", "true") + condition(".spec.restartPolicy", "In", "Never")
		all = append(all,
			strings.NewReplacer(ofJobs, ofJobs+goesOn, next, soon).Replace(stage),
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
