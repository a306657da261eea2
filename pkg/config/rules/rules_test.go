package rules

import (
	"strings"
	"testing"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/scalar"
	"kcmd.dev/pkg/config/v1beta1"
)

func TestEveryNumberAndDurationHasARule(t *testing.T) {
	rules := ByPath()
	for _, change := range diff.Of(diff.Object{}, diff.ObjectOf(v1beta1.NewDefault())) {
		_, isNumber := change.New.(float64)
		_, isDuration := scalar.Duration(change.New)
		if _, ok := rules[change.Path]; (isNumber || isDuration) && !ok && !strings.HasSuffix(change.Path, "infoBufferSize") {
			t.Errorf("%s has no rule", change.Path)
		}
	}
}
