package fromflags

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/scalar"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// fit brings the values that upstream accepts, and that are out of range here, into the range:
// a controller without workers is disabled, any other value becomes the nearest one allowed.
// Values that upstream refuses too are errors when the file is checked.
func (c *converter) fit() {
	byPath := rules.ByPath()
	for _, row := range conversion.Table() {
		rule, ok := byPath[row.Field]
		if row.Flag == "" || !ok || c.fields[row.Field] != row.Flag || isMask(row.Field) {
			continue
		}
		value := reflect.Indirect(conversion.Lookup(c.out, row.Field))
		message, fits := rule.Admits(plain(value), false)
		nearest, low, found := nearest(rule, value)
		switch {
		case isNaN(value) && rule.Number != nil:
			c.fail(row.Flag, "%s", message)
			set(conversion.Lookup(c.out, row.Field), reflect.ValueOf(rule.Number.Max)) // so that the rest can be checked
		case fits || !found || row.Rejects&side(low) != 0:
		case low && strings.HasSuffix(row.Field, ".concurrentSyncs"):
			c.disable(row)
		default:
			set(conversion.Lookup(c.out, row.Field), nearest)
			message = fmt.Sprintf("%s; it becomes %s", message, write(nearest))
			c.fitted[row.Flag] = message
			if row.Refused != "" {
				message = fmt.Sprintf("%s (%s)", message, row.Refused)
			}
			c.addNote(row.Flag, message, c.runs(row.Field))
			c.comment(row.Flag, c.text(row.Flag)+": "+message)
		}
	}
}

// isMask reports whether a field is the size of a range, for which the nearest one allowed is no
// substitute.
func isMask(field string) bool { return strings.Contains(field, "nodeCIDRMaskSize") }

// isNaN reports whether a number is none, which no file can hold and to which no number is near.
func isNaN(value reflect.Value) bool { return value.CanFloat() && math.IsNaN(value.Float()) }

func side(low bool) conversion.Rejects {
	if low {
		return conversion.RejectsLow
	}
	return conversion.RejectsHigh
}

// disable disables a controller that has no workers upstream, which has the same effect.
func (c *converter) disable(row conversion.Row) {
	name := controllerOf(row.Field)
	standard := v1beta1.NewDefault()
	set(conversion.Lookup(c.out, row.Field), reflect.Indirect(conversion.Lookup(standard, row.Field)))
	delete(c.fields, row.Field)
	if !c.out.ControllerEnabled(name) {
		c.note(row.Flag, c.text(row.Flag)+" is left out: at least 1 is needed, and "+name+" is disabled")
		return
	}
	enabled := "controllers." + name + ".enabled"
	conversion.Lookup(c.out, enabled).Set(reflect.ValueOf(ptr.To(false)))
	c.fields[enabled] = row.Flag
	message := "upstream starts no workers, so that " + name + " does nothing: here it is disabled"
	c.noteImportant(row.Flag, message)
	c.comments[enabled] = append(c.comments[enabled], c.text(row.Flag)+": "+message)
}

// leaveOut gives the fields that the file must not have their defaults, if nothing reads them: upstream
// does not read them either. It reports whether there are any.
func (c *converter) leaveOut(problems problem.Errors) bool {
	standard, found := v1beta1.NewDefault(), false
	for _, p := range problems {
		if p.Severity != problem.SeverityError || c.runs(p.Path) {
			continue
		}
		for _, field := range c.within(path(p.Path)) {
			flag := c.fields[field]
			conversion.Lookup(c.out, field).Set(conversion.Lookup(standard, field))
			delete(c.fields, field)
			c.note(flag, c.text(flag)+" is left out: "+p.Message+"; "+c.unread(field))
			found = true
		}
	}
	return found
}

// within are the fields that flags decided at a path of the file: that field, or those of that block.
func (c *converter) within(path string) []string {
	if _, ok := c.fields[path]; ok {
		return []string{path}
	}
	var out []string
	for field := range c.fields {
		if strings.HasPrefix(field, path+".") {
			out = append(out, field)
		}
	}
	order := flagOrder()
	slices.SortFunc(out, func(a, b string) int { return order["--"+c.fields[a]] - order["--"+c.fields[b]] })
	return out
}

const (
	electionSwitch = "leaderElection.leaderElect"
	clusterName    = "cloud.clusterName"
	allocator      = "node-ipam-controller"
)

// divides reports whether a field is read only while ranges are allocated to nodes.
func divides(field string) bool { return strings.HasPrefix(field, "networking.") || isMask(field) }

// runs reports whether something reads a field: it is none of the settings of a controller, of leader
// election or of the ranges of nodes, or that is enabled.
func (c *converter) runs(field string) bool {
	switch {
	case field == clusterName:
		return false
	case divides(field):
		return c.out.ControllerEnabled(allocator) && *c.out.Controllers.NodeIPAM.AllocateNodeCIDRs
	}
	isElection := strings.HasPrefix(field, "leaderElection.") && field != electionSwitch
	if isElection || strings.HasPrefix(field, "leaderMigration.") {
		return *c.out.LeaderElection.LeaderElect
	}
	name := controllerOf(field)
	return name == "" || strings.HasSuffix(field, ".enabled") || c.out.ControllerEnabled(name)
}

// unread is the reason why nothing reads a field.
func (c *converter) unread(field string) string {
	switch name := controllerOf(field); {
	case field == clusterName:
		return "nothing in upstream 1.36 reads it"
	case divides(field) && c.out.ControllerEnabled(allocator):
		return allocator + " allocates no ranges"
	case divides(field):
		return allocator + " is disabled"
	case name != "":
		return name + " is disabled"
	}
	return "leader election is disabled"
}

// controllerOf is the controller whose block has the field, or empty.
func controllerOf(field string) string {
	rest, ok := strings.CutPrefix(field, "controllers.")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ".")
	return name
}

// halfAuthority leaves out a file of the CA of all signers whose other file is not given, unless single signers have
// CAs, which upstream refuses: it then signs nothing, as kcmd does without a CA.
func (c *converter) halfAuthority() {
	signing := &c.out.Controllers.CSRSigning
	one := signing.AllSigners
	has := func(s v1beta1.Signer) bool { return s.CA != (v1beta1.SigningCA{}) }
	if slices.ContainsFunc(signing.Signers(), has) || (one.CertFile == "") == (one.PrivateKeyFile == "") {
		return
	}
	signing.AllSigners = v1beta1.SigningCA{}
	for _, file := range []string{"cert", "key"} {
		flag := "cluster-signing-" + file + "-file"
		if row, _ := conversion.Flag(flag); c.flags.Lookup(flag).Value.String() != "" {
			delete(c.fields, row.Field)
			c.note(flag, c.text(flag)+" is left out: with one of the two files only, upstream signs nothing, "+
				"and neither does kcmd without a CA")
		}
	}
}

// nearest is the allowed value that is nearest to one out of range; low reports whether the value
// is below the range.
func nearest(rule rules.Rule, value reflect.Value) (nearest reflect.Value, low, ok bool) {
	switch v := plain(value).(type) {
	case string:
		if rule.Duration == nil {
			return nearest, false, false
		}
		d, _ := time.ParseDuration(v)
		low = d < rule.Duration.Min
		bound := rule.Duration.Max
		if low {
			bound = rule.Duration.Min
		}
		return reflect.ValueOf(metav1.Duration{Duration: bound}), low, true
	default:
		n, isNumber := scalar.Float(v)
		if rule.Number == nil || !isNumber || n != n {
			return nearest, false, false
		}
		low = n < rule.Number.Min
		bound := rule.Number.Max
		if low {
			bound = rule.Number.Min
		}
		return reflect.ValueOf(bound), low, true
	}
}

// plain is a value as a decoder of a file leaves it.
func plain(value reflect.Value) any {
	switch v := value.Interface().(type) {
	case metav1.Duration:
		return v.Duration.String()
	case logsapi.TimeOrMetaDuration:
		return v.Duration.Duration.String()
	}
	switch {
	case value.CanInt():
		return value.Int()
	case value.CanUint():
		return value.Uint()
	case value.CanFloat():
		return value.Float()
	}
	return nil
}

// set sets a field, or what it points to, without changing what it pointed to.
func set(field, value reflect.Value) {
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	field.Set(value.Convert(field.Type()))
}

// write writes a value as in a file.
func write(value reflect.Value) string {
	if d, ok := value.Interface().(metav1.Duration); ok {
		return v1beta1.FormatDuration(d.Duration)
	}
	return scalar.FormatNumber(value.Float())
}
