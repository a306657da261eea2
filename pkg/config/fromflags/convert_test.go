package fromflags

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// body converts and returns the file without its first two lines.
func body(t *testing.T, args ...string) (string, *Result) {
	t.Helper()
	result, err := Convert(args)
	if err != nil {
		t.Fatalf("converting %q: %v", args, err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(result.File)) {
		if !strings.HasPrefix(line, "apiVersion:") && !strings.HasPrefix(line, "kind:") {
			out.WriteString(line)
		}
	}
	return strings.TrimSpace(out.String()), result
}

func TestSpellingsOfFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, ""},
		{"the program in front", []string{"/usr/local/bin/kube-controller-manager", "--v=2"}, "logging:\n  verbosity: 2"},
		{"a folder with the name of the program", []string{"--cert-dir=/var/lib/kube-controller-manager", "--v=2"},
			"serving:\n  tls:\n    certDirectory: /var/lib/kube-controller-manager\n\nlogging:\n  verbosity: 2"},
		{"value in the next argument", []string{"--concurrent-gc-syncs", "3"}, "controllers:\n  garbage-collector-controller:\n    concurrentSyncs: 3"},
		{"underscores", []string{"--concurrent_gc_syncs=3"}, "controllers:\n  garbage-collector-controller:\n    concurrentSyncs: 3"},
		{"bool without a value", []string{"--use-service-account-credentials"}, "clientConnection:\n  useServiceAccountCredentials: true"},
		{"shorthand", []string{"-v", "4"}, "logging:\n  verbosity: 4"},
		{"the last of two values counts", []string{"--concurrent-gc-syncs=3", "--concurrent-gc-syncs=4"}, "controllers:\n  garbage-collector-controller:\n    concurrentSyncs: 4"},
		{"lists append", []string{"--authorization-always-allow-paths=/a", "--authorization-always-allow-paths=/b,/c"},
			"serving:\n  authorization:\n    alwaysAllowPaths:\n      - /a\n      - /b\n      - /c"},
		{"an empty argument", []string{""}, ""},
		{"a limit", []string{"--kube-api-qps=50"}, "clientConnection:\n  # --kube-api-qps=50\n  qps: 50\n  burst: 30"},
		{"upstream's own limit, written down", []string{"--kube-api-qps=20", "--kube-api-burst=30"}, "clientConnection:\n  # --kube-api-qps=20\n  qps: 20\n  # --kube-api-burst=30\n  burst: 30"},
		{"controllers", []string{"--controllers=-job,*", "--controllers=deployment"}, "controllers:\n  deployment-controller:\n    enabled: true\n  job-controller:\n    enabled: false"},
		{"some controllers only", []string{"--controllers=job"}, "controllerDefaults:\n  enabled: false\n\ncontrollers:\n  job-controller:\n    enabled: true"},
		{"the opposite", []string{"--disable-http2-serving"}, "serving:\n  http2:\n    # --disable-http2-serving=true\n    enabled: false"},
		{"names of certificates", []string{"--tls-sni-cert-key=a.crt,a.key:a.example.org,b.example.org"},
			"serving:\n  tls:\n    # --tls-sni-cert-key=a.crt,a.key:a.example.org,b.example.org\n    sniCertificates:\n      - certFile: a.crt\n        privateKeyFile: a.key\n        names:\n          - a.example.org\n          - b.example.org"},
		{"curves", []string{"--tls-curve-preferences=29,23"}, "serving:\n  tls:\n    # --tls-curve-preferences=29,23\n    curvePreferences:\n      - CurveP256\n      - X25519"},
		{"labels", []string{"--allow-metric-labels=metric,label=a"}, "metrics:\n  allowListMapping:\n    metric,label: a"},
		{"a version", []string{"--emulated-version=kube=1.35"}, "# --emulated-version=kube=1.35\nemulatedVersion: \"1.35\""},
		{"gates", []string{"--feature-gates=kube:GenericWorkload=true", "--feature-gates", "kube:WorkloadWithJob=true"},
			"# --feature-gates=kube:GenericWorkload=true,kube:WorkloadWithJob=true\nfeatureGates:\n  GenericWorkload: true\n  WorkloadWithJob: true"},
		{"seconds", []string{"--pv-recycler-minimum-timeout-nfs=90"}, "controllers:\n  persistentvolume-binder-controller:\n    recycler:\n      nfs:\n        minimumTimeout: 1m30s"},
		{"text that looks like something else", []string{"--kubeconfig=on"}, "clientConnection:\n  kubeconfig: \"on\""},
		{"shutdown", []string{"--controller-shutdown-timeout=0s"}, "reload:\n  # --controller-shutdown-timeout=0s\n  drainTimeout: 10m"},
		{"streams", []string{"--http2-max-streams-per-connection=0"}, ""},
		{"a negative number of streams, which means the default", []string{"--http2-max-streams-per-connection=-5"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := body(t, test.args...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.args, diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--concurent-gc-syncs=3"}, "unknown flag: --concurent-gc-syncs, did you mean --concurrent-gc-syncs?"},
		{"nothing like it", []string{"--port-of-call"}, "unknown flag: --port-of-call"},
		{"no number", []string{"--concurrent-gc-syncs=x"}, `invalid argument "x" for "--concurrent-gc-syncs" flag: strconv.ParseInt: parsing "x": invalid syntax`},
		{"no duration", []string{"--min-resync-period=12"}, `invalid argument "12" for "--min-resync-period" flag: time: missing unit in duration "12"`},
		{"no address", []string{"--bind-address=here"}, `invalid argument "here" for "--bind-address" flag: failed to parse IP: "here"`},
		{"no certificate", []string{"--tls-sni-cert-key=a"}, `invalid argument "a" for "--tls-sni-cert-key" flag: expected comma separated certificate and key file paths`},
		{"no value", []string{"--kubeconfig"}, "flag needs an argument: --kubeconfig"},
		{"argument", []string{"x"}, `"kube-controller-manager" does not take any arguments, got ["x"]`},
		{"help", []string{"--help"}, "a command line with --help or --version runs nothing: there is nothing to convert"},
		{"version", []string{"--version"}, "a command line with --help or --version runs nothing: there is nothing to convert"},
		{"unknown controller", []string{"--controllers=*,-x"}, `--controllers: "x" is not in the list of known controllers`},
		{"three ranges", []string{"--service-cluster-ip-range=10.0.0.0/16,10.1.0.0/16,10.2.0.0/16"}, "--service-cluster-ip-range: --service-cluster-ip-range can not contain more than two entries"},
		{"no workers where upstream wants some", []string{"--concurrent-job-syncs=0"}, "--concurrent-job-syncs: must be 1 to 1000, not 0 (upstream rejects 0 too)"},
		{"a port", []string{"--secure-port=70000"}, "--secure-port: must be 0 to 65535, not 70000 (upstream rejects it too)"},
		{"a period of less than a second", []string{"--attach-detach-reconcile-sync-period=500ms"},
			"--attach-detach-reconcile-sync-period: must be 0s (never), or 1s to 24h, not 500ms (upstream rejects less than 1s and accepts any longer period)"},
		{"no pause between flushes", []string{"--log-flush-frequency=0"}, "--log-flush-frequency: must be 1ms or more, not 0s (upstream rejects 0 and less)"},
		{"everything at once", []string{"--concurrent-job-syncs=0", "--tls-min-version=TLS1", "--a", "b", "--concurrent_gc-syncs", "x", "--leader-elect-resource-lock=endpoints", "--kubeconfig"},
			"unknown flag: --a\n" + `invalid argument "x" for "--concurrent-gc-syncs" flag: strconv.ParseInt: parsing "x": invalid syntax` + "\n" +
				"flag needs an argument: --kubeconfig\n" +
				`--leader-elect-resource-lock: must be leases, not "endpoints": upstream rejects it too` + "\n" +
				"--tls-min-version: must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13, not \"TLS1\"\n" +
				"--concurrent-job-syncs: must be 1 to 1000, not 0 (upstream rejects 0 too)"},
		{"unknown gate", []string{"--feature-gates=Bogus=true"}, "--feature-gates: Bogus: unknown feature gate: Kubernetes 1.36 has no gate with this or a similar name"},
		{"locked gate", []string{"--feature-gates=JobManagedBy=false"}, "--feature-gates: JobManagedBy: the gate is GA and locked to true: remove it"},
		{"gate without a value", []string{"--feature-gates=GenericWorkload"}, "--feature-gates: missing bool value for GenericWorkload"},
		{"gate with a bad value", []string{"--feature-gates=GenericWorkload=maybe"}, `--feature-gates: invalid value of GenericWorkload=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`},
		{"gates of another component", []string{"--feature-gates=other:GenericWorkload=true"}, "--feature-gates: component not registered: other"},
		{"gates with and without a component", []string{"--feature-gates=kube:GenericWorkload=true,WorkloadWithJob=true"},
			"--feature-gates: set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"},
		{"curve", []string{"--tls-curve-preferences=1"}, "--tls-curve-preferences: curve preference 1 is not supported by the current Go version"},
		{"two versions", []string{"--emulated-version=1.35,kube=1.34"}, "--emulated-version: duplicate version flag, 1.35 and 1.34"},
		{"both kinds of authorities", []string{"--cluster-signing-cert-file=a", "--cluster-signing-key-file=b", "--cluster-signing-kubelet-client-cert-file=c", "--cluster-signing-kubelet-client-key-file=d"},
			"--cluster-signing-kubelet-client-cert-file: cannot be combined with allSigners: set either the CA of all signers or the CAs of single signers"},
		{"half a CA of all signers and one of single signers", []string{"--cluster-signing-cert-file=a", "--cluster-signing-kubelet-client-cert-file=b", "--cluster-signing-kubelet-client-key-file=c"},
			"--cluster-signing-cert-file: needs privateKeyFile\n" +
				"--cluster-signing-kubelet-client-cert-file: cannot be combined with allSigners: set either the CA of all signers or the CAs of single signers"},
		{"half a CA of a single signer", []string{"--cluster-signing-kubelet-client-cert-file=b"}, "--cluster-signing-kubelet-client-cert-file: needs privateKeyFile"},
		{"ranges that cannot be divided", []string{"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16,10.1.0.0/16"},
			"--cluster-cidr: 10.0.0.0/16 and 10.1.0.0/16 have the same IP family: two ranges must be one IPv4 range and one IPv6 range"},
		{"durations above the range", []string{"--leader-elect-lease-duration=24h", "--leader-elect-renew-deadline=23h"},
			"--leader-elect-lease-duration: must be 1s to 1h, not 24h; it becomes 1h, and then leaseDuration (1h) must be more than renewDeadline (1h) (upstream panics if the durations contradict each other)"},
		{"a server without a scheme", []string{"--master=10.0.0.1:6443", "--kubeconfig=/a"},
			`--master: must be a URL such as https://10.0.0.1:6443, not "10.0.0.1:6443", did you mean "https://10.0.0.1:6443"?`},
		{"another lock", []string{"--leader-elect-resource-lock=endpoints"}, `--leader-elect-resource-lock: must be leases, not "endpoints": upstream rejects it too`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Convert(test.args)
			if err == nil || err.Error() != test.want {
				t.Errorf("error\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// some is a value of each flag that is not the default of upstream.
func some(t *testing.T, flag *pflag.Flag) string {
	t.Helper()
	special := map[string]string{
		"controllers": "*,-job", "leader-elect-resource-lock": "leases", "cidr-allocator-type": "RangeAllocator", "cloud-provider": "external",
		"feature-gates": "GenericWorkload=true", "emulated-version": "1.35", "min-compatibility-version": "1.34", "cluster-cidr": "10.0.0.0/16",
		"service-cluster-ip-range": "10.96.0.0/12", "bind-address": "127.0.0.1", "secure-port": "10258", "kube-api-content-type": "application/json",
		"tls-sni-cert-key": "a,b", "tls-cipher-suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "tls-curve-preferences": "29",
		"tls-min-version": "VersionTLS13", "requestheader-uid-headers": "X-Remote-Uid", "show-hidden-metrics-for-version": "1.35",
		"allow-metric-labels": "a,b=c", "logging-format": "json", "vmodule": "a=2", "master": "https://10.0.0.1:6443", "leader-elect-lease-duration": "20s",
		"leader-elect-renew-deadline": "12s", "leader-elect-retry-period": "3s", "legacy-service-account-token-clean-up-period": "48h",
		"horizontal-pod-autoscaler-tolerance": "0.2", "unhealthy-zone-threshold": "0.6", "node-eviction-rate": "0.2", "secondary-node-eviction-rate": "0.02",
		"cluster-signing-duration": "1h", "node-monitor-grace-period": "40s", "route-reconciliation-period": "20s",
	}
	if value, ok := special[flag.Name]; ok {
		return value
	}
	switch flag.Value.Type() {
	case "bool":
		return map[string]string{"true": "false", "false": "true"}[flag.DefValue]
	case "duration":
		return "7s"
	case "quantity":
		return "7Mi"
	case "string", "stringSlice":
		return "some"
	case "version":
		return "false"
	}
	return "7"
}

// together are flags that another one requires.
var together = map[string][]string{
	"tls-cert-file": {"--tls-private-key-file=b"}, "tls-private-key-file": {"--tls-cert-file=a"},
	"cluster-signing-cert-file": {"--cluster-signing-key-file=b"}, "cluster-signing-key-file": {"--cluster-signing-cert-file=b"},
	"cluster-signing-kubelet-serving-cert-file": {"--cluster-signing-kubelet-serving-key-file=b"}, "cluster-signing-kubelet-serving-key-file": {"--cluster-signing-kubelet-serving-cert-file=b"},
	"cluster-signing-kubelet-client-cert-file": {"--cluster-signing-kubelet-client-key-file=b"}, "cluster-signing-kubelet-client-key-file": {"--cluster-signing-kubelet-client-cert-file=b"},
	"cluster-signing-kube-apiserver-client-cert-file": {"--cluster-signing-kube-apiserver-client-key-file=b"},
	"cluster-signing-kube-apiserver-client-key-file":  {"--cluster-signing-kube-apiserver-client-cert-file=b"},
	"cluster-signing-legacy-unknown-cert-file":        {"--cluster-signing-legacy-unknown-key-file=b"}, "cluster-signing-legacy-unknown-key-file": {"--cluster-signing-legacy-unknown-cert-file=b"},
	"log-text-split-stream": {"--feature-gates=LoggingAlphaOptions=true"}, "log-text-info-buffer-size": {"--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream"},
	"log-json-split-stream":     {"--feature-gates=LoggingAlphaOptions=true", "--logging-format=json"},
	"log-json-info-buffer-size": {"--feature-gates=LoggingAlphaOptions=true", "--logging-format=json", "--log-json-split-stream"},
	"node-cidr-mask-size":       {"--cluster-cidr=10.0.0.0/6"}, "node-cidr-mask-size-ipv4": {"--cluster-cidr=10.0.0.0/6"}, "allocate-node-cidrs": {"--cluster-cidr=10.0.0.0/16"},
}

// Each flag, with a value that is not its default, changes one of the fields that the
// table says, or has a note.
func TestEveryFlagLeavesATrace(t *testing.T) {
	flags, _ := newFlags()
	none, err := Convert(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range conversion.Table() {
		if row.Flag == "" || row.Flag == "help" {
			continue
		}
		t.Run(row.Flag, func(t *testing.T) {
			flag := flags.Lookup(row.Flag)
			others := together[row.Flag]
			result, err := Convert(append(slices.Clone(others), "--"+row.Flag+"="+some(t, flag)))
			if err != nil {
				t.Fatal(err)
			}
			without := none
			if len(others) > 0 {
				if alone, err := Convert(others); err == nil { // some make no sense by themselves
					without = alone
				}
			}
			noted := slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Field == "--"+row.Flag })
			changed := slices.ContainsFunc(row.Fields(), func(field string) bool {
				field = strings.ReplaceAll(field, "<name>", "job-controller")
				return !cmp.Equal(conversion.Lookup(result.Config, field).Interface(), conversion.Lookup(without.Config, field).Interface())
			})
			if !changed && !noted {
				t.Errorf("it leaves no trace in\n%s\nand no note: %v", result.File, result.Notes)
			}
			if row.Field != "" && !changed && row.Flag != "leader-migration-config" {
				t.Errorf("it changes none of %s: %v", row.Field, result.Notes)
			}
		})
	}
}

// A flag with the value that it has anyhow is not in the file, and a note says so.
func TestFlagsWithTheirDefaultsAreNoted(t *testing.T) {
	got, result := body(t, "--secure-port=10257", "--leader-elect=true", "--cluster-name=kubernetes", "--node-sync-period=0s")
	if got != "" {
		t.Errorf("the file has\n%s", got)
	}
	for _, want := range []string{
		"--secure-port: --secure-port=10257 is the default here too: it is left out of the file",
		"--leader-elect: --leader-elect=true is the default here too: it is left out of the file",
		"--cluster-name: --cluster-name=kubernetes is the default here too: it is left out of the file",
		"--node-sync-period: --node-sync-period=0s is left out: has no effect in Kubernetes 1.36",
	} {
		if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.String() == want }) {
			t.Errorf("no note %q in %v", want, result.Notes)
		}
	}
}

func TestHiddenFlagsAreReadAndNoted(t *testing.T) {
	_, result := body(t, "--allow-untagged-cloud", "--node-sync-period=5s")
	var fields []string
	for _, note := range result.Notes {
		if strings.Contains(note.Message, "upstream has deprecated the flag") {
			fields = append(fields, note.Field)
		}
	}
	if !slices.Equal(fields, []string{"--allow-untagged-cloud", "--node-sync-period"}) {
		t.Errorf("notes: %v", result.Notes)
	}
}

func TestLimitsThatNoFlagSetsAreNotCarriedOver(t *testing.T) {
	_, result := body(t)
	if *result.Config.ClientConnection.QPS != 0 {
		t.Errorf("qps is %v", *result.Config.ClientConnection.QPS)
	}
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Field == "--kube-api-qps" }) {
		t.Errorf("nothing says so: %v", result.Notes)
	}
}

func TestLeaderMigrationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "migration.yaml")
	const content = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: move\n" +
		"controllerLeaders:\n- {name: service-lb-controller, component: cloud-controller-manager}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	_, result := body(t, "--enable-leader-migration", "--leader-migration-config="+file)
	want := v1beta1.LeaderMigration{Enabled: ptr.To(true), LeaderName: "move", Component: "kube-controller-manager",
		ControllerLeaders: []v1beta1.ControllerLeader{{Name: "service-lb-controller", Component: "cloud-controller-manager"}}}
	if diff := cmp.Diff(want, result.Config.LeaderMigration); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	_, result = body(t, "--enable-leader-migration", "--leader-migration-config=/nowhere/at/all")
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Field == "--leader-migration-config" && n.Important }) {
		t.Errorf("a file that is not there: %v", result.Notes)
	}
	_, result = body(t, "--leader-migration-config="+file)
	if diff := cmp.Diff(v1beta1.NewDefault().LeaderMigration, result.Config.LeaderMigration); diff != "" {
		t.Errorf("without the switch (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(content, "move", `""`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert([]string{"--enable-leader-migration", "--leader-migration-config=" + file}); err == nil || !strings.Contains(err.Error(), "leaderName") {
		t.Errorf("a file without a name: %v", err)
	}
}

// The same flags mean the same whether they are converted, or seen at /configz of the
// process that was started with them. Nothing that kubeadm configures is lost: there is no
// warning, and no note that the behaviour changes.
func TestKubeadmManifest(t *testing.T) {
	data, err := os.ReadFile("testdata/kubeadm-1.36.yaml")
	if err != nil {
		t.Fatal(err)
	}
	result, err := FromManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := config.Load("config.yaml", result.File)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result.Config, doc.Config); diff != "" {
		t.Errorf("the file is read as something else (-result +read):\n%s", diff)
	}
	configz, err := os.ReadFile("../upstream/testdata/configz-kubeadm-1.36.json")
	if err != nil {
		t.Fatal(err)
	}
	running, err := config.Load("configz", configz)
	if err != nil {
		t.Fatal(err)
	}
	want := running.Config
	want.ClientConnection.QPS, want.ClientConnection.Burst = ptr.To[float32](0), ptr.To[int32](0) // no flag sets them
	want.Serving.BindAddress = "127.0.0.1"
	want.Serving.Authentication.Kubeconfig = "/etc/kubernetes/controller-manager.conf"
	want.Serving.Authentication.ClientCAFile = "/etc/kubernetes/pki/ca.crt"
	want.Serving.Authentication.RequestHeader.ClientCAFile = "/etc/kubernetes/pki/front-proxy-ca.crt"
	want.Serving.Authorization.Kubeconfig = "/etc/kubernetes/controller-manager.conf"
	if diff := cmp.Diff(want, doc.Config); diff != "" {
		t.Errorf("(-/configz and what it cannot say +flags):\n%s", diff)
	}
	if len(doc.Warnings) > 0 {
		t.Errorf("the file has warnings:\n%v", doc.Warnings)
	}
	for _, note := range result.Notes {
		if note.Important {
			t.Errorf("the behaviour changes: %v", note)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add("--controllers=*,-job\n--kube-api-qps=7\n--v=3")
	f.Add("--feature-gates=GenericWorkload=true\n--tls-sni-cert-key=a,b:c\n--allow-metric-labels=a,b=c")
	flags, _ := newFlags()
	for _, row := range conversion.Table() {
		if row.Flag != "" {
			f.Add("--" + row.Flag + "=" + flags.Lookup(row.Flag).DefValue)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "migration") }) {
			return // it would read files
		}
		result, err := Convert(args)
		if err != nil {
			return
		}
		doc, err := config.Load("fuzz", result.File)
		if err != nil {
			t.Fatalf("the file is not accepted: %v\n%s", err, result.File)
		}
		if diff := cmp.Diff(result.Config, doc.Config); diff != "" {
			t.Errorf("the file is read as something else:\n%s", diff)
		}
	})
}

func TestFlagsAreThoseOfTheTable(t *testing.T) {
	flags, _ := newFlags()
	got := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { got[f.Name] = true })
	want := map[string]bool{}
	for _, row := range conversion.Table() {
		if row.Flag != "" {
			want[row.Flag] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("flags %v, the table has %v", got, want)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, err := Convert([]string{"--concurrent-job-syncs=0"})
	var problems conversion.Errors
	if !errors.As(err, &problems) || problems[0].Field != "--concurrent-job-syncs" {
		t.Errorf("error %v of type %T", err, err)
	}
}

// Without a limit of requests a burst has no meaning; it is not said to be a default.
func TestABurstWithoutALimitIsLeftOut(t *testing.T) {
	got, result := body(t, "--kube-api-qps=-1", "--kube-api-burst=5")
	if got != "" {
		t.Errorf("the file has\n%s", got)
	}
	wantNote(t, result, false, "--kube-api-burst: --kube-api-burst=5 is left out: a negative --kube-api-qps means no limit")
}

func TestWhatIsNoNumberIsReportedByFlag(t *testing.T) {
	_, err := Convert([]string{"--horizontal-pod-autoscaler-tolerance=NaN", "--kube-api-qps=NaN", "--kube-api-burst=5"})
	const want = "--kube-api-qps: must be 0 to 1000000, not NaN\n--horizontal-pod-autoscaler-tolerance: must be 0 to 1, not NaN"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
