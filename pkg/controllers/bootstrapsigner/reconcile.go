package bootstrapsigner

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// lookAgain is when the ConfigMap is reconciled again at the latest: no event tells that the clock was set, and that a
// token has expired by now, or has not yet.
const lookAgain = 10 * time.Minute

func (s *signer) reconcile(ctx context.Context, key types.NamespacedName) error {
	info, found, err := reconcile.Found(s.configMaps.Get(key.Name))
	if !found {
		return err
	}
	if _, ok := info.Data[bootstrapapi.KubeConfigKey]; !ok {
		klog.FromContext(ctx).V(3).Info("The ConfigMap has no kubeconfig to sign", "configMap", key)
		return nil
	}
	tokens, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	missed, err := s.missed(ctx, info.Data)
	if err != nil {
		return err
	}
	tokens = append(tokens, missed...)
	data, err := sign(info.Data, tokens)
	if err != nil {
		return err
	}
	s.returnFor(tokens)
	if maps.Equal(data, info.Data) {
		return nil
	}
	info = info.DeepCopy()
	info.Data = data
	_, err = s.Client.CoreV1().ConfigMaps(key.Namespace).Update(ctx, info, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// An admission webhook may give this answer, and then no event follows.
		s.queue.AddAfter(key, reconcile.RecheckAfter)
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating config map %s: %w", key, err)
	}
	return nil
}

// tokens returns the tokens that sign.
func (s *signer) tokens(ctx context.Context) ([]token, error) {
	secrets, err := s.secrets.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing bootstrap tokens in the cache: %w", err)
	}
	logger, now := klog.FromContext(ctx).V(3), s.Clock.Now()
	var tokens []token
	for _, secret := range secrets {
		if !isToken(secret) {
			continue
		}
		t, ok, wrong := tokenOf(secret, now)
		if wrong != "" {
			logger.Info("A bootstrap token cannot be used to sign", "secret", klog.KObj(secret), "reason", wrong)
		}
		if ok {
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// missed returns the tokens with a signature that the cache lacks, although they exist and sign. A list may have lacked
// them, and no node could join with them any more. No event tells when they are deleted indeed.
func (s *signer) missed(ctx context.Context, data map[string]string) ([]token, error) {
	var tokens []token
	for key := range data {
		id, isSignature := strings.CutPrefix(key, bootstrapapi.JWSSignatureKeyPrefix)
		name := bootstrapapi.BootstrapTokenSecretPrefix + id
		if _, isName := bootstrapsecrets.ParseName(name); !isSignature || !isName {
			continue
		}
		_, cached, err := reconcile.Found(s.secrets.Get(name))
		if err != nil {
			return nil, err
		}
		if cached {
			continue
		}
		secret, err := s.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if controller.Absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading secret %s: %w", name, err)
		}
		if t, ok, _ := tokenOf(secret, s.Clock.Now()); ok && isToken(secret) {
			s.queue.AddAfter(clusterInfo, reconcile.RecheckAfter)
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// returnFor enqueues the ConfigMap for the moment when the first of its tokens expires, since the
// Secret stays if token-cleaner-controller is off, or for lookAgain later if that is earlier.
func (s *signer) returnFor(tokens []token) {
	first := lookAgain
	for _, t := range tokens {
		if t.remaining > 0 {
			first = min(first, t.remaining)
		}
	}
	s.queue.AddAfter(clusterInfo, first)
}
