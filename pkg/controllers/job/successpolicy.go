package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// judgeSuccess finds the first rule of a success policy that the succeeded indexes meet, and
// returns a description. A Job of which nothing has succeeded yet meets none.
func judgeSuccess(policy *batchv1.SuccessPolicy, completions int, succeeded indexes) (string, bool) {
	total := succeeded.count()
	if policy == nil || total == 0 {
		return "", false
	}
	for i := range policy.Rules {
		if meetsRule(&policy.Rules[i], completions, succeeded, total) {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}

func meetsRule(rule *batchv1.SuccessPolicyRule, completions int, succeeded indexes, total int) bool {
	if rule.SucceededIndexes == nil {
		return rule.SucceededCount != nil && total >= int(*rule.SucceededCount)
	}
	wanted := parseIndexes(*rule.SucceededIndexes, completions)
	size := wanted.count()
	if size == 0 {
		return false
	}
	overlap := succeeded.overlap(wanted)
	return overlap == size || rule.SucceededCount != nil && overlap >= int(*rule.SucceededCount)
}
