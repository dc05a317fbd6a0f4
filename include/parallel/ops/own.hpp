// own: an operation of one's own as host code, with what it reads and writes.
#pragma once

#include <utility>

#include <parallel/device/meta/touched.hpp>

namespace parallel::ops {

/// An argument of `own` that is added to.
using meta::updates;

/// own(s, task, views...): enqueues task(), which reads the views of const elements among `views`,
/// writes the others, and reads and writes those given as updates(view). On the meta device nothing
/// runs; the views are noted for the check of the model (train/model_check.hpp). For streams whose
/// tasks are host code; a GPU needs a kernel (docs/gpu.md). Name every view that the task meets:
/// what is not named is looked at by nobody. Throws `error` where one is bound to nothing.
struct own_fn {
  template <class Stream, class Task, class... Views>
  void operator()(Stream& s, Task&& task, Views const&... views) const {
    if constexpr (requires { s.touch(views...); }) {
      s.touch(views...);
    } else {
      meta::require_bound(views...);
      s.enqueue(std::forward<Task>(task));
    }
  }
};
inline constexpr own_fn own{};

}  // namespace parallel::ops
