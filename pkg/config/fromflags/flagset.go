package fromflags

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// options are what the flags are parsed into.
type options struct {
	// upstream has what upstream keeps in its own type.
	upstream *v1alpha1.KubeControllerManagerConfiguration
	// direct has what upstream does not keep there, field by field.
	direct *v1beta1.KubeControllerManagerConfiguration

	// The others are converted by code of their own.
	migrationFile    string
	shutdownTimeout  time.Duration
	gates            map[string][]string
	emulatedVersion  []string
	minCompatibility []string
	serviceRanges    string
	bindAddress      net.IP
	sniCertificates  []cliflag.NamedCertKey
	curves           []int32
	maxStreams       int
	disableHTTP2     bool
	version          versionValue
	help             bool
}

// newFlags returns the flags of upstream and what they are parsed into.
func newFlags() (*pflag.FlagSet, *options) {
	o := &options{
		upstream: conversion.NewDefault(), direct: v1beta1.NewDefault(),
		shutdownTimeout: 10 * time.Second, bindAddress: net.IPv4zero, gates: map[string][]string{},
	}
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.Usage = func() {}
	o.addSpecial(flags)
	for _, row := range conversion.Table() {
		switch {
		case row.Flag == "" || flags.Lookup(row.Flag) != nil:
		case row.Upstream != "":
			bind(flags, row.Flag, conversion.Lookup(o.upstream, row.Upstream).Addr().Interface())
		default:
			bind(flags, row.Flag, conversion.Lookup(o.direct, row.Field).Addr().Interface())
		}
	}
	return flags, o
}

// addSpecial defines the flags whose type is not that of one field.
func (o *options) addSpecial(flags *pflag.FlagSet) {
	flags.StringVar(&o.migrationFile, "leader-migration-config", "", "")
	flags.DurationVar(&o.shutdownTimeout, "controller-shutdown-timeout", o.shutdownTimeout, "")
	flags.Var(cliflag.NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(&o.gates), "feature-gates", "")
	flags.StringSliceVar(&o.emulatedVersion, "emulated-version", nil, "")
	flags.StringSliceVar(&o.minCompatibility, "min-compatibility-version", nil, "")
	flags.StringVar(&o.serviceRanges, "service-cluster-ip-range", "", "")
	flags.IPVar(&o.bindAddress, "bind-address", o.bindAddress, "")
	flags.Var(cliflag.NewNamedCertKeyArray(&o.sniCertificates), "tls-sni-cert-key", "")
	flags.Int32SliceVar(&o.curves, "tls-curve-preferences", nil, "")
	flags.IntVar(&o.maxStreams, "http2-max-streams-per-connection", 0, "")
	flags.BoolVar(&o.disableHTTP2, "disable-http2-serving", false, "")
	flags.StringToStringVar(&o.direct.Metrics.AllowListMapping, "allow-metric-labels", nil, "")
	flags.Var(&o.version, "version", "")
	flags.Lookup("version").NoOptDefVal = "true"
	flags.BoolVarP(&o.help, "help", "h", false, "")
	flags.VarP(logsapi.VerbosityLevelPflag(&o.direct.Logging.Verbosity), "v", "v", "")
}

// bind defines the flag of a field, by the type of the field, with the value of the
// field as default. It panics for a type that no flag has: the table is tested.
func bind(flags *pflag.FlagSet, name string, field any) {
	switch f := field.(type) {
	case *string:
		flags.StringVar(f, name, *f, "")
	case *[]string:
		flags.StringSliceVar(f, name, *f, "")
	case *bool:
		flags.BoolVar(f, name, *f, "")
	case **bool:
		flags.BoolVar(*f, name, **f, "")
	case *int32:
		flags.Int32Var(f, name, *f, "")
	case **int32:
		flags.Int32Var(*f, name, **f, "")
	case *float32:
		flags.Float32Var(f, name, *f, "")
	case *float64:
		flags.Float64Var(f, name, *f, "")
	case *metav1.Duration:
		flags.DurationVar(&f.Duration, name, f.Duration, "")
	case **metav1.Duration:
		flags.DurationVar(&(*f).Duration, name, (*f).Duration, "")
	case *logsapi.TimeOrMetaDuration:
		flags.DurationVar(&f.Duration.Duration, name, f.Duration.Duration, "")
	case *logsapi.VModuleConfiguration:
		flags.Var(logsapi.VModuleConfigurationPflag(f), name, "")
	case *resource.QuantityValue:
		flags.Var(f, name, "")
	default:
		panic(fmt.Sprintf("--%s: no flag has the type %T", name, field))
	}
}

// versionValue is what --version takes: true, false, raw, or a version to report.
type versionValue string

func (v *versionValue) Set(text string) error {
	if text != "raw" && (text == "" || text[0] != 'v') {
		if _, err := strconv.ParseBool(text); err != nil {
			return err
		}
	}
	*v = versionValue(text)
	return nil
}

func (v *versionValue) String() string { return string(*v) }

func (*versionValue) Type() string { return "version" }

func (*versionValue) IsBoolFlag() bool { return true }
