package simulation

import (
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/networking"
)

func (s *scope) Networking() networking.Interface { return networking.New(factory{s.w}, "", nil) }

func (s *scope) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(factory{s.w}, "", nil)
}
