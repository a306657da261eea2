package index

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// endpointSlicesByService indexes EndpointSlices by the namespace and name of the Service in
// their label; those without the label are not indexed.
const endpointSlicesByService = "endpointSliceService"

// EndpointSlices finds EndpointSlices by Service.
type EndpointSlices struct{ indexer cache.Indexer }

// NewEndpointSlices adds the index to the EndpointSlice informer if needed.
func NewEndpointSlices(informer cache.SharedIndexInformer) EndpointSlices {
	Ensure(informer, endpointSlicesByService, endpointSliceKeys)
	return EndpointSlices{informer.GetIndexer()}
}

// Of returns the EndpointSlices labelled with a Service, whoever manages them.
func (e EndpointSlices) Of(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	return Append[*discoveryv1.EndpointSlice](nil, e.indexer, endpointSlicesByService, namespace+"/"+service)
}

func endpointSliceKeys(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}
