package await

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAWaitEndsWithItsCondition(t *testing.T) {
	calls := 0
	err := Nil(t.Context(), time.Minute, func(context.Context) error {
		calls++
		if calls < 3 {
			return errors.New("too few")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestAConditionIsAwaited(t *testing.T) {
	calls := 0
	True(t, "there are three calls", func() bool {
		calls++
		return calls == 3
	})
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

func TestAFailureReportsWhatWasWrongLast(t *testing.T) {
	err := Nil(t.Context(), 50*time.Millisecond, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return errors.New("the request was interrupted")
		}
		return errors.New("two are missing")
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "two are missing") {
		t.Errorf("the error is %v", err)
	}
}

func TestAFinalErrorEndsAWaitAtOnce(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web")
	calls := 0
	err := Nil(t.Context(), time.Minute, func(context.Context) error {
		calls++
		return Existing(missing)
	})
	if calls != 1 || !apierrors.IsNotFound(err) {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestGone(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web")
	refused := errors.New("connection refused")
	if err := Gone(missing); err != nil {
		t.Errorf("a missing object is not gone: %v", err)
	}
	if Gone(nil) == nil {
		t.Error("an object that was found is gone")
	}
	if err := Gone(refused); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
