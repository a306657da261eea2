package informers

import (
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// The accessors of the API groups, as in the generated factory.

func (v *view) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Apps() apps.Interface {
	return apps.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Autoscaling() autoscaling.Interface {
	return autoscaling.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Batch() batch.Interface {
	return batch.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Certificates() certificates.Interface {
	return certificates.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Coordination() coordination.Interface {
	return coordination.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Core() core.Interface {
	return core.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Discovery() discovery.Interface {
	return discovery.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Events() events.Interface {
	return events.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Extensions() extensions.Interface {
	return extensions.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Networking() networking.Interface {
	return networking.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Node() node.Interface {
	return node.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Policy() policy.Interface {
	return policy.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Rbac() rbac.Interface {
	return rbac.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Resource() resource.Interface {
	return resource.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Scheduling() scheduling.Interface {
	return scheduling.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Storage() storage.Interface {
	return storage.New(v, v.filter.Namespace, v.tweak())
}

func (v *view) Storagemigration() storagemigration.Interface {
	return storagemigration.New(v, v.filter.Namespace, v.tweak())
}
