package subsets_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/services/subsets"
)

// address has a target if it has a uid.
func address(ip, uid string) corev1.EndpointAddress {
	a := corev1.EndpointAddress{IP: ip}
	if uid != "" {
		a.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + uid, UID: types.UID(uid)}
	}
	return a
}

func list(ips ...string) (all []corev1.EndpointAddress) {
	for _, ip := range ips {
		all = append(all, address(ip, ip))
	}
	return all
}

func ports(numbers ...int32) (all []corev1.EndpointPort) {
	for _, n := range numbers {
		all = append(all, corev1.EndpointPort{Name: fmt.Sprintf("p%d", n), Port: n, Protocol: corev1.ProtocolTCP})
	}
	return all
}

// text shows subsets in an order that does not depend on hashes.
func text(all []corev1.EndpointSubset) []string {
	var lines []string
	for _, s := range all {
		var names []string
		for _, p := range s.Ports {
			names = append(names, fmt.Sprintf("%s:%d/%s/%s", p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, "-")))
		}
		slices.Sort(names)
		show := func(list []corev1.EndpointAddress) (ips []string) {
			for _, a := range list {
				ip := a.IP
				if a.TargetRef != nil {
					ip += "/" + a.TargetRef.Name
				}
				ips = append(ips, ip+a.Hostname)
			}
			return ips
		}
		lines = append(lines, fmt.Sprint(names, " ", show(s.Addresses), " not ready ", show(s.NotReadyAddresses)))
	}
	slices.Sort(lines)
	return lines
}

func TestRepack(t *testing.T) {
	web := func(p corev1.EndpointPort) corev1.EndpointPort { p.AppProtocol = ptr.To("web"); return p }
	named := address("1", "u")
	named.Hostname = "-first"
	for name, tc := range map[string]struct {
		in   []corev1.EndpointSubset
		want []string
	}{
		"nothing":                      {nil, nil},
		"EP-33b: no addresses":         {[]corev1.EndpointSubset{{Ports: ports(80)}}, nil},
		"EP-33b: no addresses or port": {[]corev1.EndpointSubset{{}}, nil},
		"one": {[]corev1.EndpointSubset{{Addresses: list("1"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1/pod-1] not ready []"}},
		"EP-33b: one port, two subsets": {[]corev1.EndpointSubset{{Addresses: list("2"), Ports: ports(80)}, {Addresses: list("1"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1/pod-1 2/pod-2] not ready []"}},
		"EP-33c: same addresses, two ports": {[]corev1.EndpointSubset{{Addresses: list("1", "2"), Ports: ports(80)}, {Addresses: list("2", "1"), Ports: ports(90)}},
			[]string{"[p80:80/TCP/- p90:90/TCP/-] [1/pod-1 2/pod-2] not ready []"}},
		"EP-33c: other addresses, two ports": {[]corev1.EndpointSubset{{Addresses: list("1"), Ports: ports(80, 90)}, {Addresses: list("2"), Ports: ports(90)}},
			[]string{"[p80:80/TCP/-] [1/pod-1] not ready []", "[p90:90/TCP/-] [1/pod-1 2/pod-2] not ready []"}},
		"EP-33c: same ends, another middle": {[]corev1.EndpointSubset{{Addresses: list("1", "2", "4"), Ports: ports(80)}, {Addresses: list("1", "3", "4"), Ports: ports(90)}},
			[]string{"[p80:80/TCP/-] [1/pod-1 2/pod-2 4/pod-4] not ready []", "[p90:90/TCP/-] [1/pod-1 3/pod-3 4/pod-4] not ready []"}},
		"EP-33c: other readiness, two ports": {[]corev1.EndpointSubset{{Addresses: list("1"), Ports: ports(80)}, {NotReadyAddresses: list("1"), Ports: ports(90)}},
			[]string{"[p80:80/TCP/-] [1/pod-1] not ready []", "[p90:90/TCP/-] [] not ready [1/pod-1]"}},
		"EP-33b: ready and not ready": {[]corev1.EndpointSubset{{Addresses: list("1"), NotReadyAddresses: list("1"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [] not ready [1/pod-1]"}},
		"EP-33b: not ready and ready": {[]corev1.EndpointSubset{{NotReadyAddresses: list("1"), Ports: ports(80)}, {Addresses: list("1"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [] not ready [1/pod-1]"}},
		"EP-47: appProtocol by value": {[]corev1.EndpointSubset{
			{Addresses: list("1"), Ports: []corev1.EndpointPort{web(ports(80)[0])}},
			{Addresses: list("2"), Ports: []corev1.EndpointPort{web(ports(80)[0])}},
			{Addresses: list("3"), Ports: ports(80)},
		}, []string{"[p80:80/TCP/-] [3/pod-3] not ready []", "[p80:80/TCP/web] [1/pod-1 2/pod-2] not ready []"}},
		"EP-33b, EP-33c: without ports": {[]corev1.EndpointSubset{{Addresses: list("2")}, {NotReadyAddresses: list("1")}, {Addresses: list("2"), Ports: ports(80)}},
			[]string{"[] [2/pod-2] not ready [1/pod-1]", "[p80:80/TCP/-] [2/pod-2] not ready []"}},
		"EP-33c: without ports, same addresses": {[]corev1.EndpointSubset{{Addresses: list("2")}, {Addresses: list("2"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [2/pod-2] not ready []"}},
		"EP-33c: without ports last, same addresses": {[]corev1.EndpointSubset{{Addresses: list("2"), Ports: ports(80, 90)}, {Addresses: list("2")}},
			[]string{"[p80:80/TCP/- p90:90/TCP/-] [2/pod-2] not ready []"}},
		"EP-33c: without ports, other readiness": {[]corev1.EndpointSubset{{NotReadyAddresses: list("2")}, {Addresses: list("2"), Ports: ports(80)}},
			[]string{"[] [] not ready [2/pod-2]", "[p80:80/TCP/-] [2/pod-2] not ready []"}},
		"EP-33a: same IP, other targets": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address("1", "v"), address("1", "u"), address("1", "")}, Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1 1/pod-u 1/pod-v] not ready []"}},
		"EP-33a: same IP, first without a target": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address("1", ""), address("1", "v"), address("1", "u")}, Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1 1/pod-u 1/pod-v] not ready []"}},
		"EP-33a: same target, other IPs": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address("2", "u"), address("1", "u")}, Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1/pod-u 2/pod-u] not ready []"}},
		"EP-33a: no target, other IPs": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address("2", ""), address("1", "")}, Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1 2] not ready []"}},
		"EP-33b: ports of other names, numbers, protocols and no appProtocol": {[]corev1.EndpointSubset{
			{Addresses: list("1"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, Protocol: corev1.ProtocolTCP}}},
			{Addresses: list("2"), Ports: []corev1.EndpointPort{{Name: "b", Port: 80, Protocol: corev1.ProtocolTCP}}},
			{Addresses: list("3"), Ports: []corev1.EndpointPort{{Name: "a", Port: 90, Protocol: corev1.ProtocolTCP}}},
			{Addresses: list("4"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, Protocol: corev1.ProtocolUDP}}},
			{Addresses: list("5"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("")}}},
			{Addresses: list("6"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("web")}}},
		}, []string{
			"[a:80/TCP/-] [1/pod-1] not ready []", "[a:80/TCP/] [5/pod-5] not ready []", "[a:80/TCP/web] [6/pod-6] not ready []",
			"[a:80/UDP/-] [4/pod-4] not ready []", "[a:90/TCP/-] [3/pod-3] not ready []", "[b:80/TCP/-] [2/pod-2] not ready []",
		}},
		"EP-33a: first record wins": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{named, address("1", "u")}, Ports: ports(80)}, {Addresses: []corev1.EndpointAddress{address("1", "u")}, Ports: ports(90)}},
			[]string{"[p80:80/TCP/- p90:90/TCP/-] [1/pod-u-first] not ready []"}},
		"EP-33d: IPs before targets": {[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address("2", "a"), address("1", "b")}, Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [1/pod-b 2/pod-a] not ready []"}},
		"EP-33d: bytes, not numbers": {[]corev1.EndpointSubset{{Addresses: list("10.0.0.2", "10.0.0.10"), Ports: ports(80)}},
			[]string{"[p80:80/TCP/-] [10.0.0.10/pod-10.0.0.10 10.0.0.2/pod-10.0.0.2] not ready []"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := (&corev1.Endpoints{Subsets: tc.in}).DeepCopy().Subsets
			if got := text(subsets.Repack(tc.in)); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if !equality.Semantic.DeepEqual(before, tc.in) {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestRepackIsCanonical(t *testing.T) {
	in := []corev1.EndpointSubset{
		{Addresses: list("1", "2", "3"), Ports: ports(80, 443)},
		{Addresses: list("4"), NotReadyAddresses: list("5", "6"), Ports: ports(90, 91, 92)},
		{Addresses: list("7"), Ports: ports(1)}, {Addresses: list("8"), Ports: ports(2)}, {NotReadyAddresses: list("9")},
	}
	want := subsets.Repack(in)
	if again := subsets.Repack(want); !equality.Semantic.DeepEqual(again, want) {
		t.Errorf("repacked again: %v, was %v", again, want)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := (&corev1.Endpoints{Subsets: in}).DeepCopy().Subsets
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, s := range shuffled {
			random.Shuffle(len(s.Ports), func(i, j int) { s.Ports[i], s.Ports[j] = s.Ports[j], s.Ports[i] })
			random.Shuffle(len(s.Addresses), func(i, j int) { s.Addresses[i], s.Addresses[j] = s.Addresses[j], s.Addresses[i] })
		}
		if got := subsets.Repack(shuffled); !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestCount(t *testing.T) {
	ready, notReady := subsets.Count([]corev1.EndpointSubset{{Addresses: list("1", "2")}, {Addresses: list("3"), NotReadyAddresses: list("1")}})
	if ready != 3 || notReady != 1 {
		t.Errorf("%d ready, %d not", ready, notReady)
	}
}

// BenchmarkRepack is a Service with three ports whose pods each contribute a subset a port.
func BenchmarkRepack(b *testing.B) {
	for _, pods := range []int{100, 1000} {
		var in []corev1.EndpointSubset
		for i := range pods {
			for _, port := range ports(80, 443, 9090) {
				in = append(in, corev1.EndpointSubset{Addresses: list(fmt.Sprintf("10.0.%d.%d", i/250, i%250)), Ports: []corev1.EndpointPort{port}})
			}
		}
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := len(subsets.Repack(in)); n != 1 {
					b.Fatalf("%d subsets", n)
				}
			}
		})
	}
}
