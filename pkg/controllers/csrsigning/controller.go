// Package csrsigning issues certificates for approved CertificateSigningRequests of the
// signers of Kubernetes whose CA is configured.
//
// The model, in rules:
//
//  1. A signer has a name, rules for its requests, and a CA. There are four: for the serving and
//     the client certificates of kubelets, for the client certificates of users, and for
//     requests that are older than signer names. A signer without a CA signs nothing.
//  2. A request is signed if it names one of these signers, is approved and not denied, has not
//     failed, and has no certificate yet.
//  3. A request that violates the rules of its signer fails permanently, with a condition that
//     gives the reason. One that cannot be parsed or signed is retried.
//  4. A certificate has the subject, the names and the key of the request, the usages of its
//     spec, and the duration that the spec requests: at least ten minutes, at most what is
//     configured, and never past the end of the CA. It is never a CA certificate.
//  5. A CA is a pair of files. When they change they are read again, and nothing restarts. Requests
//     that could not be signed before are retried with a new CA. An invalid pair is an error of New,
//     and so it is if all CAs have expired. If some have, the signers with the others sign. If a
//     pair becomes invalid later, that is logged, and the CA that was read before stays in force.
//  6. The CAs in force are handed over. Where the files contain one that has expired, the next
//     instance continues with that of its predecessor.
//
// Behaviour: docs/specs/certificatesigningrequest-signing-controller.md.
package csrsigning

import (
	"context"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Descriptor describes certificatesigningrequest-signing-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "certificatesigningrequest-signing-controller",
		Aliases:        []string{"csrsigning"},
		ServiceAccount: certificates.ServiceAccount,
		ClusterScoped:  true,
		Requires: []schema.GroupVersionResource{
			certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration. The zero value means that there
// is nothing to run.
type config struct {
	// duration is the maximum duration of a certificate, and the default.
	duration time.Duration
	// authorities has the files of the signers, in the order of profiles.
	authorities [len(profiles)]authority.Files
}

func configOf(c *controller.Config) config {
	block := c.Controllers.CSRSigning
	pairs := [...]v1beta1.SigningCA{
		block.KubeletServing, block.KubeletClient, block.KubeAPIServerClient, block.LegacyUnknown,
	}
	value := config{duration: block.CertificateDuration.Duration}
	for i, pair := range pairs {
		if block.AllSigners != (v1beta1.SigningCA{}) {
			pair = block.AllSigners
		}
		value.authorities[i] = authority.Files{Cert: pair.CertFile, Key: pair.PrivateKeyFile}
	}
	if !value.signs() {
		return config{}
	}
	return value
}

// signs reports whether a signer has files.
func (c config) signs() bool { return c.authorities != config{}.authorities }

// FollowedFiles implements controller.FileFollower.
func (c config) FollowedFiles() []string {
	var files []string
	for _, pair := range c.authorities {
		for _, file := range []string{pair.Cert, pair.Key} {
			if file != "" && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

type signingController struct {
	controller.Env
	duration time.Duration
	requests certificateslisters.CertificateSigningRequestLister
	signers  map[string]*signer
	cas      []*ca
	skipped  []string // signers without a CA
	loop     *reconcile.Loop[string]
}

// newController returns none if no signer has a CA.
func newController(env controller.Env, cfg config) (*signingController, error) {
	if !cfg.signs() {
		return nil, nil
	}
	requests := env.Informers.Certificates().V1().CertificateSigningRequests()
	c := &signingController{
		Env:      env,
		duration: cfg.duration,
		requests: requests.Lister(),
		signers:  map[string]*signer{},
	}
	if err := c.equip(cfg.authorities); err != nil {
		return nil, err
	}
	c.loop = reconcile.New(env, certificates.Queue(certificates.Workers*len(c.signers)), c.reconcile)
	watch.Objects(requests.Informer(), certificates.Funcs(c.loop, c.hasSigner))
	return c, nil
}

// Run implements controller.Controller.
func (c *signingController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run, c.follow)
}

// begin takes over the CAs in force where the files contain expired ones, and logs which signers sign nothing.
func (c *signingController) begin(ctx context.Context) error {
	c.takeOver(ctx)
	for _, name := range c.skipped {
		klog.FromContext(ctx).Info("Skipping CSR signer controller because specific files were specified "+
			"for other signers and not this one", "controller", name)
	}
	return nil
}
