// Counts how often fused attention kernels ran on a GPU's stream, and how often they declined, so
// that plain kernels did the work.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <parallel/ops/cuda/attention/fused_attention.hpp>

namespace test {

class counted_attention final : public parallel::cuda::fused_attention {
 public:
  using bf16 = parallel::bf16;
  template <class T>
  using heads = parallel::ops::heads_view<T>;
  using stream = parallel::cuda::stream;

  struct counts {
    int completed = 0, declined = 0;
  };

  /// Begins to count the calls on `s`. Returns null, and counts nothing, if the program is linked
  /// without fused kernels.
  [[nodiscard]] static counts const* begin(stream& s) {
    auto& fused = s.library<parallel::cuda::attention_kernels>().fused;
    if (fused == nullptr) return nullptr;
    auto counted = std::make_unique<counted_attention>(std::move(fused));
    counts const* const out = &counted->counts_;
    fused = std::move(counted);
    return out;
  }

  explicit counted_attention(std::unique_ptr<fused_attention> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] parallel::cuda::attention_backend backend() const override {
    return inner_->backend();
  }
  [[nodiscard]] bool forward(stream& s, heads<bf16> out, float* lse, heads<bf16 const> q,
                             heads<bf16 const> k, heads<bf16 const> v,
                             parallel::ops::attention_options const& options) override {
    return count(inner_->forward(s, out, lse, q, k, v, options));
  }
  [[nodiscard]] bool backward(stream& s,
                              parallel::ops::attention_backward_arguments<bf16> const& a) override {
    return count(inner_->backward(s, a));
  }
  [[nodiscard]] std::optional<part_result> forward_part(
      stream& s, heads<bf16 const> q, heads<bf16 const> k, heads<bf16 const> v,
      parallel::ops::attention_options const& options) override {
    auto const result = inner_->forward_part(s, q, k, v, options);
    count(result.has_value());
    return result;
  }
  [[nodiscard]] std::optional<part_gradients> backward_part(
      stream& s, parallel::ops::extend_attention_backward_arguments<bf16> const& a) override {
    auto const result = inner_->backward_part(s, a);
    count(result.has_value());
    return result;
  }
  void tune(bool is_on) override { inner_->tune(is_on); }
  [[nodiscard]] parallel::cuda::attention_tuning const& tuning() const override {
    return inner_->tuning();
  }
  void use(parallel::cuda::attention_tuning table) override { inner_->use(std::move(table)); }

 private:
  bool count(bool is_completed) {
    ++(is_completed ? counts_.completed : counts_.declined);
    return is_completed;
  }

  std::unique_ptr<fused_attention> inner_;
  counts counts_;
};

}  // namespace test
