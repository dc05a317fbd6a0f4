// Attention by a vendor's fused kernels, if the program is linked with them: what the launchers of
// attention ask of it. Whoever links decides, by the definition of make_fused_attention: one line
// that returns null or a cudnn::attention_plans. ParallelLM::kernels has it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/cuda/attention_path.hpp>
#include <parallel/ops/cuda/attention_tuning.hpp>

namespace parallel::cuda {

/// Calls are those that attention_path allows; slopes and beginnings of documents are memory of the
/// device, slopes aligned to 16 bytes.
class fused_attention {
 public:
  fused_attention() = default;
  fused_attention(fused_attention const&) = delete;
  fused_attention& operator=(fused_attention const&) = delete;
  virtual ~fused_attention() = default;

  /// What it is, for attention_path.
  [[nodiscard]] virtual attention_backend backend() const = 0;

  /// Enqueues on `s`, whose library this is; false, and nothing, when there is no kernel for it
  /// after all. lse may be null.
  [[nodiscard]] virtual bool forward(stream& s, ops::heads_view<bf16> out, float* lse,
                                     ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                                     ops::heads_view<bf16 const> v,
                                     ops::attention_options const& options) = 0;
  [[nodiscard]] virtual bool backward(stream& s, ops::heads_view<bf16> dq, ops::heads_view<bf16> dk,
                                      ops::heads_view<bf16> dv, ops::heads_view<bf16 const> dout,
                                      ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                                      ops::heads_view<bf16 const> v,
                                      ops::heads_view<bf16 const> out, float const* lse,
                                      ops::attention_options const& options) = 0;

  /// A call on one part of the keys: like `forward` and `backward`, but what it gives lies in the
  /// stream's scratch, rows one after another, until its next operation but these. The backward
  /// pass gets `out` and `lse` of all parts.
  struct part_result {
    ops::heads_view<bf16 const> out;
    float const* lse = nullptr;
  };
  struct part_gradients {
    ops::heads_view<bf16 const> dq, dk, dv;
  };
  [[nodiscard]] virtual std::optional<part_result> forward_part(
      stream& s, ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
      ops::heads_view<bf16 const> v, ops::attention_options const& options) = 0;
  [[nodiscard]] virtual std::optional<part_gradients> backward_part(
      stream& s, ops::heads_view<bf16 const> dout, ops::heads_view<bf16 const> q,
      ops::heads_view<bf16 const> k, ops::heads_view<bf16 const> v, ops::heads_view<bf16 const> out,
      float const* lse, ops::attention_options const& options) = 0;

  /// From now on a call without an entry in the table is timed by each of the first few kernels
  /// that there are for it (on), or takes the library's first (off, as in the beginning). Timing
  /// takes as many times a kernel's own and some seconds to compile, and blocks the caller; it
  /// takes no more scratch than there is. Inside a graph nothing is timed.
  virtual void tune(bool on) = 0;
  /// What was timed here, and what `use` brought.
  [[nodiscard]] virtual attention_tuning const& tuning() const = 0;
  /// From now on `table` decides. Throws `error`, and changes nothing, when it was made for another
  /// library or device. A call whose entry does not run fails.
  virtual void use(attention_tuning table) = 0;
};

/// What this program is linked with, for streams of the device of `s`; null: nothing.
[[nodiscard]] std::unique_ptr<fused_attention> make_fused_attention(stream& s);

/// The fused kernels of one stream: s.library<attention_kernels>(). Who wants the plain ones only,
/// to compare them, resets `fused`.
struct attention_kernels {
  explicit attention_kernels(stream& s) : fused(make_fused_attention(s)) {}

  [[nodiscard]] attention_backend backend() const {
    return fused == nullptr ? attention_backend{} : fused->backend();
  }

  /// As of fused_attention; without one there is nothing to choose.
  void tune(bool on) {
    if (fused != nullptr) fused->tune(on);
  }
  [[nodiscard]] attention_tuning tuning() const {
    return fused == nullptr ? attention_tuning(no_library) : fused->tuning();
  }
  void use(attention_tuning table) {
    if (fused != nullptr) return fused->use(std::move(table));
    attention_tuning(no_library).merge(table);  // says for what it is
  }

  /// Whether a call on `path` is done by `run`, which enqueues it on `fused`, or says false; if
  /// not, it is for the plain kernels, and why is remembered.
  template <class Run>
  [[nodiscard]] bool take(attention_path const& path, Run const& run) {
    if (path.fused && run()) return true;
    plain.insert(path.fused ? "cuDNN has no kernel that runs it" : path.reason);
    return false;
  }

  std::unique_ptr<fused_attention> fused;
  std::set<std::string_view> plain;  // why calls were left to the plain kernels

 private:
  static constexpr char const* no_library = "no library of fused attention";
};

}  // namespace parallel::cuda
