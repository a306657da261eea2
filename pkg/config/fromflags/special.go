package fromflags

import (
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// component is the prefix of gates and versions that are kube-controller-manager's.
const component = "kube"

// longestDrain is the longest time that a stopping controller has.
const longestDrain = 10 * time.Minute

// serviceRanges splits the ranges as upstream does before it keeps them.
func (c *converter) serviceRanges() {
	ranges := conversion.SplitList(c.options.serviceRanges)
	if len(ranges) > 2 {
		c.fail("service-cluster-ip-range", "--service-cluster-ip-range can not contain more than two entries")
		return
	}
	if len(ranges) > 0 {
		c.options.upstream.NodeIPAMController.ServiceCIDR = ranges[0]
	}
	if len(ranges) > 1 {
		c.options.upstream.NodeIPAMController.SecondaryServiceCIDR = ranges[1]
	}
}

// takeSpecial converts the flags that are not the value of one field.
func (c *converter) takeSpecial() {
	o, out := c.options, c.out
	for _, special := range []struct {
		flag, field string
		take        func()
	}{
		{"controller-shutdown-timeout", "reload.drainTimeout", c.takeShutdownTimeout},
		{"feature-gates", "featureGates", c.takeGates},
		{
			"emulated-version", "emulatedVersion",
			func() { out.EmulatedVersion = c.ownVersion("emulated-version", o.emulatedVersion) },
		},
		{
			"min-compatibility-version", "minCompatibilityVersion",
			func() { out.MinCompatibilityVersion = c.ownVersion("min-compatibility-version", o.minCompatibility) },
		},
		{"bind-address", "serving.bindAddress", func() { out.Serving.BindAddress = o.bindAddress.String() }},
		{"tls-sni-cert-key", "serving.tls.sniCertificates", c.takeSNI},
		{"tls-curve-preferences", "serving.tls.curvePreferences", c.takeCurves},
		{"http2-max-streams-per-connection", "serving.http2.maxStreamsPerConnection", c.takeMaxStreams},
		{"master", "clientConnection.server", c.takeServer},
		{"disable-http2-serving", "serving.http2.enabled", func() { out.Serving.HTTP2.Enabled = ptr.To(!o.disableHTTP2) }},
	} {
		if c.given(special.flag) {
			special.take()
			c.fields[special.field] = special.flag
		}
	}
	v1beta1.SetDefaults(out)
}

func (c *converter) takeShutdownTimeout() {
	timeout := c.options.shutdownTimeout
	if timeout == 0 {
		timeout = longestDrain
		c.noteImportant("controller-shutdown-timeout", "0s means no limit upstream; here it becomes 10m, the maximum")
	}
	c.out.Reload.DrainTimeout = &metav1.Duration{Duration: timeout}
}

// takeGates keeps the gates of kube-controller-manager. As upstream, it refuses a mixture
// of gates with and without the name of the component.
func (c *converter) takeGates() {
	gates := map[string]bool{}
	for owner, settings := range c.options.gates {
		if owner != "" && owner != component {
			c.fail("feature-gates", "component not registered: %s", owner)
			continue
		}
		for _, setting := range settings {
			name, text, found := strings.Cut(setting, "=")
			if !found {
				c.fail("feature-gates", "missing bool value for %s", setting)
				continue
			}
			value, err := strconv.ParseBool(strings.TrimSpace(text))
			if err != nil {
				c.fail("feature-gates", "invalid value of %s=%s, err: %v", name, text, err)
				continue
			}
			gates[strings.TrimSpace(name)] = value
		}
	}
	if len(c.options.gates[""]) > 0 && len(c.options.gates[component]) > 0 {
		c.fail("feature-gates",
			"set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
	}
	c.out.FeatureGates = gates
	for name := range gates {
		c.fields["featureGates."+name] = "feature-gates"
	}
}

// ownVersion picks the version of kube-controller-manager from [component=]version.
func (c *converter) ownVersion(flag string, settings []string) string {
	out := ""
	for _, setting := range settings {
		owner, version, found := strings.Cut(setting, "=")
		switch {
		case !found:
			version = owner
		case owner != component:
			c.fail(flag, "component not registered: %s", owner)
			continue
		}
		if out != "" {
			c.fail(flag, "duplicate version flag, %s and %s", out, version)
		}
		out = strings.TrimPrefix(version, "v")
	}
	return out
}

func (c *converter) takeSNI() {
	for _, entry := range c.options.sniCertificates {
		c.out.Serving.TLS.SNICertificates = append(c.out.Serving.TLS.SNICertificates,
			v1beta1.SNICertificate{CertFile: entry.CertFile, PrivateKeyFile: entry.KeyFile, Names: entry.Names})
	}
}

func (c *converter) takeCurves() {
	ids, err := cliflag.TLSCurvePreferences(c.options.curves)
	if err != nil {
		c.fail("tls-curve-preferences", "%v", err)
		return
	}
	slices.Sort(ids)
	for _, id := range slices.CompactFunc(ids, func(a, b tls.CurveID) bool { return a == b }) {
		c.out.Serving.TLS.CurvePreferences = append(c.out.Serving.TLS.CurvePreferences, id.String())
	}
}

// takeMaxStreams leaves the default for 0 and less, as upstream does.
func (c *converter) takeMaxStreams() {
	if c.options.maxStreams > 0 {
		c.out.Serving.HTTP2.MaxStreamsPerConnection = ptr.To(int32(min(c.options.maxStreams, 1<<30)))
	}
}

// takeServer completes an address without a scheme as client-go does for a server of which nothing
// but the address is known. With a kubeconfig the scheme depends on the content of that file.
func (c *converter) takeServer() {
	server := &c.out.ClientConnection.Server
	if *server == "" || strings.Contains(*server, "://") || c.out.ClientConnection.Kubeconfig != "" {
		return
	}
	*server = "http://" + *server
	c.note("master", c.text("master")+" becomes "+*server+", as upstream reads it without a kubeconfig")
}
