package controller

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// A request that was cut off because the instance ends says nothing about the object.
func TestAFailureIsRecordedUnlessItWasCutOff(t *testing.T) {
	for name, tc := range map[string]struct {
		ended, fenced bool
		want          int
	}{
		"at work":                {want: 1},
		"the context has ended":  {ended: true},
		"the instance is fenced": {fenced: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fenced, recorder := make(chan struct{}), record.NewFakeRecorder(1)
			if tc.ended {
				cancel()
			}
			if tc.fenced {
				close(fenced)
			}
			env := Env{Events: recorder, Fenced: fenced}
			env.RecordFailure(ctx, Warning(&corev1.Pod{}, "FailedCreate", "denied"))
			if got := len(recorder.Events); got != tc.want {
				t.Errorf("%d events, want %d", got, tc.want)
			}
		})
	}
}
