// Attention by a vendor's fused kernels: the interface that the launchers of attention use. The
// program's definition of make_fused_attention chooses the vendor: one line that returns null or a
// cudnn::attention_plans. ParallelLM::kernels has one.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/attention/attention_tuning.hpp>

namespace parallel::cuda {

/// Calls must be those that attention_path allows. Slopes and beginnings of documents are device
/// memory; slopes are aligned to 16 bytes.
class fused_attention {
 public:
  fused_attention() = default;
  fused_attention(fused_attention&&) = delete;
  virtual ~fused_attention() = default;

  /// The library and device, for attention_path.
  [[nodiscard]] virtual attention_backend backend() const = 0;

  /// Enqueues on `s`, the stream that this object belongs to. Returns false, and enqueues nothing,
  /// when there is no kernel for the call after all. lse may be null.
  [[nodiscard]] virtual bool forward(stream& s, ops::heads_view<bf16> out, float* lse,
                                     ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                                     ops::heads_view<bf16 const> v,
                                     ops::attention_options const& options) = 0;
  [[nodiscard]] virtual bool backward(stream& s,
                                      ops::attention_backward_arguments<bf16> const& a) = 0;

  /// The results of forward_part and backward_part, which are like `forward` and `backward` for one
  /// part of the keys. The results are in the stream's scratch, with rows one after another, until
  /// the next operation that uses the scratch. backward_part takes `out` and `lse` over all parts,
  /// and leaves dq, dk and dv as they are.
  struct part_result {
    ops::heads_view<bf16 const> out;
    float const* lse = nullptr;
  };
  /// The gradients over the keys of one part, in scratch memory.
  struct part_gradients {
    ops::heads_view<bf16 const> dq, dk, dv;
  };
  [[nodiscard]] virtual std::optional<part_result> forward_part(
      stream& s, ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
      ops::heads_view<bf16 const> v, ops::attention_options const& options) = 0;
  [[nodiscard]] virtual std::optional<part_gradients> backward_part(
      stream& s, ops::extend_attention_backward_arguments<bf16> const& a) = 0;

  /// From now on a call without an entry in the table is timed with each of its first few kernels
  /// (enabled), or runs the first kernel of the library's list (disabled, the initial state).
  /// Timing runs each kernel several times and takes some seconds to compile; it blocks the caller,
  /// and uses no more scratch than there is. Inside a graph no call is timed.
  virtual void tune(bool enabled) = 0;
  /// The current table: the entries of the last `use`, and the results of timing since then.
  [[nodiscard]] virtual attention_tuning const& tuning() const = 0;
  /// Replaces the table by which kernels are chosen. Throws `error`, and changes nothing, when the
  /// table was made for another library or device. A call whose entry does not run fails.
  virtual void use(attention_tuning table) = 0;
};

/// The fused kernels that this program is linked with, for streams of the device of `s`; null if it
/// is linked with none.
[[nodiscard]] std::unique_ptr<fused_attention> make_fused_attention(stream& s);

/// The fused kernels of one stream: s.library<attention_kernels>(). To use the plain kernels only,
/// for a comparison, reset `fused`.
struct attention_kernels {
  explicit attention_kernels(stream& s) : fused(make_fused_attention(s)) {}

  [[nodiscard]] attention_backend backend() const {
    return fused == nullptr ? attention_backend{} : fused->backend();
  }

  /// These three are as in fused_attention; without fused kernels there is nothing to choose.
  void tune(bool enabled) {
    if (fused != nullptr) fused->tune(enabled);
  }
  [[nodiscard]] attention_tuning tuning() const {
    return fused == nullptr ? attention_tuning(no_library) : fused->tuning();
  }
  void use(attention_tuning table) {
    if (fused != nullptr) return fused->use(std::move(table));
    attention_tuning(no_library).merge(table);  // throws: the table is for a library
  }

  /// Whether `run`, which enqueues a call on `fused` or returns false, has run the call on `path`.
  /// If not, the call is for the plain kernels, and the reason is recorded.
  template <class Run>
  [[nodiscard]] bool try_fused(attention_path const& path, Run const& run) {
    if (path.fused && run()) return true;
    plain_reasons.insert(path.fused ? "cuDNN has no kernel that runs it" : path.reason);
    return false;
  }

  std::unique_ptr<fused_attention> fused;
  std::set<std::string_view> plain_reasons;  ///< reasons why calls ran on the plain kernels

 private:
  static constexpr char const* no_library = "no library of fused attention";
};

}  // namespace parallel::cuda
