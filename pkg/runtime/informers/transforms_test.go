package informers

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Pins MGR-170.
func TestShrinkPod(t *testing.T) {
	secretKey := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "env-secret"}, Key: "k"}
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	whole := corev1.Container{
		Name: "c", Image: "image:1", Command: []string{"x"}, Args: []string{"y"}, WorkingDir: "/w",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{}},
			{Prefix: "P", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "from-secret"}}},
		},
		Env: []corev1.EnvVar{
			{Name: "PLAIN", Value: "v"},
			{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: secretKey}},
		},
		Resources:                requests,
		RestartPolicy:            ptr.To(corev1.ContainerRestartPolicyAlways),
		VolumeMounts:             []corev1.VolumeMount{{Name: "v", MountPath: "/mnt", SubPath: "s"}},
		VolumeDevices:            []corev1.VolumeDevice{{Name: "d", DevicePath: "/dev/x"}},
		LivenessProbe:            &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}},
		ReadinessProbe:           &corev1.Probe{},
		StartupProbe:             &corev1.Probe{},
		Lifecycle:                &corev1.Lifecycle{},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullAlways,
		SecurityContext:          &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}},
	}
	kept := corev1.Container{
		Name: "c", Image: "image:1",
		Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		EnvFrom:         []corev1.EnvFromSource{{SecretRef: whole.EnvFrom[1].SecretRef}},
		Env:             []corev1.EnvVar{{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: secretKey}}},
		Resources:       requests,
		RestartPolicy:   whole.RestartPolicy,
		VolumeMounts:    []corev1.VolumeMount{{Name: "v"}},
		VolumeDevices:   []corev1.VolumeDevice{{Name: "d"}},
		SecurityContext: whole.SecurityContext,
	}
	secretProjection := func(items []corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "projected-secret"}, Items: items,
		}}
	}
	items := []corev1.KeyToPath{{Key: "a", Path: "b"}}
	claim := corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc"}}}
	common := corev1.PodSpec{
		NodeName: "n", Hostname: "h", Subdomain: "s", HostNetwork: true, ServiceAccountName: "sa", PriorityClassName: "pc",
		ActiveDeadlineSeconds: ptr.To[int64](5), RestartPolicy: corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To[int64](3),
		ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "pull"}},
		Tolerations:                   []corev1.Toleration{{Key: "k"}},
		Affinity:                      &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}},
		SchedulingGates:               []corev1.PodSchedulingGate{{Name: "g"}},
		ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: "r"}},
		ResourceClaims:                []corev1.PodResourceClaim{{Name: "rc"}},
		Overhead:                      corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")},
		SecurityContext:               &corev1.PodSecurityContext{SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive)},
	}
	meta := metav1.ObjectMeta{
		Name: "p", Namespace: "ns", UID: "u", ResourceVersion: "9", Labels: map[string]string{"a": "b"},
		Annotations:     map[string]string{"keep": "this"},
		OwnerReferences: []metav1.OwnerReference{{Name: "o"}}, Finalizers: []string{"f"},
	}
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "1.2.3.4", Conditions: []corev1.PodCondition{{Type: corev1.PodReady}}}

	in := &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: *common.DeepCopy(), Status: status}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, ContainerID: "containerd://0"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	in.Status.ContainerStatuses = []corev1.ContainerStatus{
		{
			Name: "c", Ready: true, RestartCount: 2, State: running, LastTerminationState: ended, Resources: requests.DeepCopy(),
			Image: "image:1", ImageID: "sha256:1", ContainerID: "containerd://1", VolumeMounts: []corev1.VolumeMountStatus{{Name: "v"}},
		},
		{Name: "d", State: ended},
	}
	in.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	in.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "kubelet"}}
	in.Spec.DNSPolicy, in.Spec.DNSConfig = corev1.DNSDefault, &corev1.PodDNSConfig{}
	in.Spec.HostAliases, in.Spec.EnableServiceLinks = []corev1.HostAlias{{IP: "1.1.1.1"}}, ptr.To(true)
	in.Spec.Containers = []corev1.Container{*whole.DeepCopy()}
	in.Spec.InitContainers = []corev1.Container{*whole.DeepCopy()}
	in.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon(*whole.DeepCopy()), TargetContainerName: "c",
	}}
	in.Spec.Volumes = []corev1.Volume{
		claim,
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			secretProjection(items),
		}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume-secret", Items: items}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: items}}},
		{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "p"}}}}},
	}

	want := &corev1.Pod{ObjectMeta: meta, Spec: common, Status: status}
	want.Status.ContainerStatuses = []corev1.ContainerStatus{
		{
			Name: "c", Ready: true, RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			Resources: &requests,
		},
		{Name: "d", State: ended},
	}
	want.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: ShrunkMarker}}
	want.Spec.Containers = []corev1.Container{kept}
	want.Spec.InitContainers = []corev1.Container{kept}
	want.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon(kept), TargetContainerName: "c",
	}}
	want.Spec.Volumes = []corev1.Volume{
		claim,
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{secretProjection(nil)}}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume-secret"}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}},
	}
	for _, round := range []string{"once", "twice"} {
		out, err := ShrinkPod(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Errorf("shrunk %s (-want +got):\n%s", round, diff)
		}
	}
}

// Pins MGR-170.
func TestShrunkObjectsCanBeTold(t *testing.T) {
	a, b := pod("a"), pod("b")
	if Shrunk(a) {
		t.Error("a whole pod is shrunk")
	}
	for _, p := range []*corev1.Pod{a, b} {
		if _, err := ShrinkPod(p); err != nil {
			t.Fatal(err)
		}
	}
	if !Shrunk(a) || !Shrunk(a.DeepCopy()) {
		t.Error("a shrunk pod or its copy is not shrunk")
	}
	if &a.ManagedFields[0] != &b.ManagedFields[0] {
		t.Error("the marker is stored twice")
	}
	encoded, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(encoded, []byte(ShrunkMarker)) {
		t.Error("the marker is not in the protobuf encoding")
	}
	if Shrunk(&metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: ShrunkMarker, Operation: metav1.ManagedFieldsOperationUpdate}}}) {
		t.Error("what a user of that name has written is taken for shrunk")
	}
	if Shrunk("no object") || Shrunk(&metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}) {
		t.Error("something else is shrunk")
	}
}

// Pins MGR-58.
func TestStripManagedFields(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Command: []string{"kept"}}}
	want := deployment.DeepCopy()
	want.ManagedFields = nil
	out, err := stripManagedFields(deployment)
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("error %v, diff (-want +got):\n%s", err, diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a/b"}
	for name, transform := range map[string]cache.TransformFunc{"strip": stripManagedFields, "shrink": ShrinkPod} {
		if out, err := transform(tombstone); err != nil || out != tombstone {
			t.Errorf("%s changed a tombstone to %v, error %v", name, out, err)
		}
	}
}

func TestTransformsAreAppliedByKind(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
	h := newHarness(t, pod("p"), node)
	s := h.open(ScopeOptions{Name: "transforms"})
	pods, nodes := s.Core().V1().Pods(), s.Core().V1().Nodes()
	pods.Informer()
	nodes.Informer()
	startAndSync(t, s)
	if p, err := pods.Lister().Pods("default").Get("p"); err != nil || !Shrunk(p) {
		t.Errorf("pod is not shrunk: %v, error %v", p, err)
	}
	if n, err := nodes.Lister().Get("n"); err != nil || n.ManagedFields != nil {
		t.Errorf("node is not stripped: %v, error %v", n, err)
	}
}
