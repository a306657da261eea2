package leadership

import (
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kcmd.dev/test/must"
)

// Pins MGR-38.
func TestAnIdentityIsTheHostAndARandomPart(t *testing.T) {
	identity, host := must.Get(NewIdentity())(t), must.Get(os.Hostname())(t)
	random, ok := strings.CutPrefix(identity.called(""), host+"_")
	if parsed, err := uuid.Parse(random); !ok || err != nil || parsed.Version() != 4 {
		t.Errorf("the identity on %s is %s", host, identity.called(""))
	}
}
