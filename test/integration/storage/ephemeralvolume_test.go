package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

func ephemeralVolume(c *manager.Config) **bool { return &c.Controllers.EphemeralVolume.Enabled }

// withEphemeral gives a pod generic ephemeral volumes.
func withEphemeral(volumes ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"volume": name}, Annotations: map[string]string{"example.com/note": "kept"}},
					Spec:       claimSpec(),
				}},
			}})
		}
	}
}

// awaitClaimOf waits until a pod has the claim of a volume, and returns it.
func awaitClaimOf(t *testing.T, pod *corev1.Pod, volume string) *corev1.PersistentVolumeClaim {
	t.Helper()
	var claim *corev1.PersistentVolumeClaim
	await.That(t, "pod "+pod.Name+" has a claim for volume "+volume, func(ctx context.Context) (err error) {
		claim, err = admin.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, pod.Name+"-"+volume, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(claim, pod) {
			err = fmt.Errorf("it belongs to %+v", claim.OwnerReferences)
		}
		return err
	})
	return claim
}

// Pins EPHV-2, EPHV-8 and EPHV-11c.
func TestAPodGetsClaimsForItsVolumes(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	pod := createPod(t, namespace, "web", withEphemeral("data", "cache"), unscheduled)
	for _, volume := range []string{"data", "cache"} {
		claim := awaitClaimOf(t, pod, volume)
		owner := metav1.GetControllerOf(claim)
		if owner.Kind != "Pod" || owner.APIVersion != "v1" || owner.Name != "web" || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
			t.Errorf("the owner is %+v", owner)
		}
		if claim.Labels["volume"] != volume || claim.Annotations["example.com/note"] != "kept" || *claim.Spec.StorageClassName != "none" {
			t.Errorf("the claim is %+v", claim)
		}
	}
}

// Pins EPHV-6, EPHV-14 and EPHV-17.
func TestAPodDoesNotGetTheClaimOfSomebodyElse(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	stranger := createClaim(t, namespace, "web-data")
	pod := createPod(t, namespace, "web", withEphemeral("data"), unscheduled)
	message := fmt.Sprintf("ephemeral volume data: PVC %s/web-data was not created for pod %s/web (pod is not owner)", namespace, namespace)
	await.That(t, "there is an event", func(ctx context.Context) error {
		list, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedBinding"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Message == message && e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID == pod.UID && e.Source.Component == "ephemeral_volume" {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(list.Items))
	})
	if claim := getClaim(t, namespace, "web-data"); claim.UID != stranger.UID || claim.ResourceVersion != stranger.ResourceVersion {
		t.Errorf("the claim was changed: %+v", claim)
	}
	deleteClaim(t, namespace, "web-data")
	awaitClaimOf(t, pod, "data")
}

// A pod is created again under its name while the claim of the first one waits to be deleted.
//
// Pins EPHV-18.
func TestANamesakeWaitsForAClaimOfItsOwn(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	first := createPod(t, namespace, "web", withEphemeral("data"))
	old := awaitClaimOf(t, first, "data")
	cluster.WaitForReadyPods(t, namespace, nil, 1)
	cluster.DeletePodNow(t, namespace, "web")
	second := createPod(t, namespace, "web", withEphemeral("data"))
	deleteClaim(t, namespace, "web-data") // what the garbage collector does
	if claim := awaitClaimOf(t, second, "data"); claim.UID == old.UID {
		t.Error("it has the claim of the first one")
	}
}

// The controller stops after it created the first claim of a pod, and does not see that claim when
// it goes on: it is neither made twice nor an error.
//
// Pins EPHV-24 and EPHV-28.
func TestAClaimThatWasCreatedBeforeARestartIsKnown(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	r := cluster.Behind(t, only(ephemeralVolume))
	r.Works(t)
	events := r.HoldEvents(claimEvents)
	answers := r.LoseAnswers(ofClaim("create", namespace, "web-data"))
	pod := createPod(t, namespace, "web", withEphemeral("data", "cache"), unscheduled)
	claim := awaitClaimOf(t, pod, "data")
	answers.Lift()
	awaitClaimOf(t, pod, "cache")
	events.Lift()
	r.Restart(t, ephemeralVolume, func() {
		must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Patch(t.Context(), "web-cache", types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{}))(t)
		deleteClaim(t, namespace, "web-cache")
	})
	awaitClaimOf(t, pod, "cache")
	if again := awaitClaimOf(t, pod, "data"); again.UID != claim.UID {
		t.Error("the claim was made again")
	}
}

// The manager that creates the first claim of a pod stops without knowing that it did. Its successor sees that
// claim late, and leaves it as it is. A claim of the name of the second one that belongs to nobody is not changed
// either.
//
// Pins EPHV-14, EPHV-24 and EPHV-28.
func TestAClaimThatWasCreatedBeforeATakeoverIsKnown(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	leader := cluster.Behind(t, only(ephemeralVolume))
	leader.Works(t)
	successor := cluster.Behind(t, only(ephemeralVolume))
	harness.Wait(t, successor.Manager, "it stands by", harness.StandsBy)
	stranger := createClaim(t, namespace, "web-cache")
	leader.HoldEvents(claimEvents)
	late := successor.HoldEvents(claimEvents)
	leader.LoseAnswers(ofClaim("create", namespace, "web-data"))
	pod := createPod(t, namespace, "web", withEphemeral("data", "cache"), unscheduled)
	claim := awaitClaimOf(t, pod, "data")
	must.Succeed(t, leader.Stop())
	harness.Wait(t, successor.Manager, "it leads", func(s *runtime.Status) error {
		if !s.Leadership.Leading {
			return errors.New("it stands by")
		}
		return nil
	})
	late.Lift()
	successor.Works(t)

	awaitClaimOf(t, createPod(t, namespace, "later", withEphemeral("data"), unscheduled), "data")
	if again := awaitClaimOf(t, pod, "data"); again.UID != claim.UID || again.ResourceVersion != claim.ResourceVersion {
		t.Errorf("the claim is %s of version %s, it was %s of version %s", again.UID, again.ResourceVersion, claim.UID, claim.ResourceVersion)
	}
	if other := getClaim(t, namespace, "web-cache"); other.UID != stranger.UID || other.ResourceVersion != stranger.ResourceVersion {
		t.Errorf("the claim of somebody else was changed: %+v", other)
	}
}
