package simulation

import "k8s.io/client-go/informers/autoscaling"

func (s *scope) Autoscaling() autoscaling.Interface { return autoscaling.New(factory{s.w}, "", nil) }
