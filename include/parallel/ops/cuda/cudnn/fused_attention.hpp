// Attention by cuDNN's fused kernels: a plan for each shape and set of options met so far, for the
// stream it belongs to.
//
// The first call of a shape compiles its plan, which takes about a second; later ones only enqueue.
// A plan that cannot be run the first time, or for whose scratch there is no memory, gives way to
// cuDNN's next proposal.
// Scratch forward: what the plan asks for. Backward: that, one float for each query and head, and
// the gradient of queries in floats (not on deterministic streams, whose plans ask for batch *
// heads * S * S * 2 bytes instead).
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>
#include <parallel/ops/cuda/first_that_runs.hpp>
#include <parallel/ops/cuda/fused_attention.hpp>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda::cudnn {

namespace detail {

template <class T>
[[nodiscard]] attention_strides strides_of(ops::heads_view<T> const& view) {
  // of a single sequence the distance to the next says nothing; cuDNN wants one that makes sense
  index const whole = view.sequence * view.row_stride;
  return {view.batch == 1 ? whole : view.batch_stride, view.row_stride};
}

/// What the graphs of both passes depend on.
[[nodiscard]] inline attention_problem problem_of(ops::heads_view<bf16 const> const& out,
                                                  ops::heads_view<bf16 const> const& q,
                                                  ops::heads_view<bf16 const> const& k,
                                                  ops::heads_view<bf16 const> const& v,
                                                  ops::attention_options const& options) {
  attention_problem problem;
  problem.batch = q.batch;
  problem.sequence = q.sequence;
  problem.heads = q.heads;
  problem.key_heads = k.heads;
  problem.head_dim = q.head_dim;
  problem.alibi = !options.alibi_slopes.empty();
  problem.documents = !options.document_begins.empty();
  problem.window = options.window >= q.sequence - 1 ? -1 : options.window;
  problem.q = strides_of(q);
  problem.k = strides_of(k);
  problem.v = strides_of(v);
  problem.out = strides_of(out);
  return problem;
}

}  // namespace detail

class attention_plans final : public fused_attention {
 public:
  explicit attention_plans(stream& s) {
    device_scope const scope(s.device());
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    handle_.reset(made);
    check(cudnnSetStream(made, s.get()), "cudnnSetStream");
    int major = 0;
    int minor = 0;
    cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, s.device()),
                "cudaDeviceGetAttribute");
    cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, s.device()),
                "cudaDeviceGetAttribute");
    backend_ = {.library = static_cast<int>(cudnnGetVersion()), .capability = 10 * major + minor};
  }

  [[nodiscard]] attention_backend backend() const override { return backend_; }

  [[nodiscard]] bool forward(stream& s, ops::heads_view<bf16> out, float* lse,
                             ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                             ops::heads_view<bf16 const> v,
                             ops::attention_options const& options) override {
    device_scope const scope(s.device());
    auto const problem = detail::problem_of(out, q, k, v, options);
    return with_plan(forward_, problem, attention_forward_graph, [&](plan const& chosen) {
      std::size_t const rows = cuda::detail::attention_row_bytes(q);
      pieces space(s, {chosen.workspace(), lse == nullptr ? rows : 0});
      void* const workspace = space.next();
      void* const kept = space.next();
      namespace uid = attention_uid;
      numbers const given(options, problem);
      return run(chosen, given, options, workspace,
                 {{uid::q, address(q.data)},
                  {uid::k, address(k.data)},
                  {uid::v, address(v.data)},
                  {uid::out, out.data},
                  {uid::lse, lse == nullptr ? kept : lse}});
    });
  }

  [[nodiscard]] bool backward(stream& s, ops::heads_view<bf16> dq, ops::heads_view<bf16> dk,
                              ops::heads_view<bf16> dv, ops::heads_view<bf16 const> dout,
                              ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                              ops::heads_view<bf16 const> v, ops::heads_view<bf16 const> out,
                              float const* lse, ops::attention_options const& options) override {
    device_scope const scope(s.device());
    auto problem = detail::problem_of(out, q, k, v, options);
    problem.deterministic = s.deterministic();
    problem.dq = detail::strides_of(dq);
    problem.dk = detail::strides_of(dk);
    problem.dv = detail::strides_of(dv);
    problem.dout = detail::strides_of(dout);
    return with_plan(backward_, problem, attention_backward_graph, [&](plan const& chosen) {
      std::size_t const rows = cuda::detail::attention_row_bytes(q);
      std::size_t const sums = rows * static_cast<std::size_t>(q.head_dim);
      pieces space(s, {chosen.workspace(), rows, problem.deterministic ? 0 : sums});
      void* const workspace = space.next();
      void* const own = space.next();
      void* const dq_sum = space.next();
      namespace uid = attention_uid;
      numbers const given(options, problem);
      std::vector<binding> tensors = {{uid::q, address(q.data)},
                                      {uid::k, address(k.data)},
                                      {uid::v, address(v.data)},
                                      {uid::out, address(out.data)},
                                      {uid::dout, address(dout.data)},
                                      {uid::lse, address(lse)},
                                      {uid::own, own},
                                      {uid::one, address(&given.one)},
                                      {uid::dq, dq.data},
                                      {uid::dk, dk.data},
                                      {uid::dv, dv.data}};
      if (!problem.deterministic) tensors.push_back({uid::dq_sum, dq_sum});
      return run(chosen, given, options, workspace, std::move(tensors));
    });
  }

 private:
  using plan_map = std::map<attention_problem, first_that_runs<plans_of>>;

  /// What plans read from the host's memory.
  struct numbers {
    numbers(ops::attention_options const& options, attention_problem const& problem)
        : scale(static_cast<float>(options.scale)),
          window(static_cast<float>(problem.window + 1)) {}
    float scale;
    float window;  // column + window > row
    float masked = -std::numeric_limits<float>::infinity();
    float other = -1e9F;  // see in_documents
    float one = 1.0F;
  };

  /// Scratch memory in pieces.
  class pieces {
   public:
    pieces(stream& s, std::initializer_list<std::size_t> bytes) {
      std::size_t all = 0;
      for (std::size_t const each : bytes) {
        offsets_.push_back(all);
        all += scratch_piece(each);
      }
      begin_ = s.scratch(all);
    }
    [[nodiscard]] void* next() { return begin_ + offsets_[taken_++]; }

   private:
    std::byte* begin_ = nullptr;
    std::vector<std::size_t> offsets_;
    std::size_t taken_ = 0;
  };

  // cuDNN takes addresses of inputs and outputs alike
  template <class T>
  [[nodiscard]] static void* address(T const* data) {
    return const_cast<T*>(data);
  }

  /// enqueue(plan) with the plan of a problem, found when it is first asked for; false when cuDNN
  /// has none that runs. Throws `error` when a plan fails that has run before: then it is not the
  /// plan.
  template <class Build, class Enqueue>
  bool with_plan(plan_map& all, attention_problem const& problem, Build const& graph_of,
                 Enqueue const& enqueue) {
    auto at = all.find(problem);
    if (at == all.end())
      at = all.emplace(problem, plans_of(handle_.get(), graph_of(problem))).first;
    auto& plans = at->second;
    return plans([&](plan const& each) {
      cudnnStatus_t status{};
      try {
        status = enqueue(each);
      } catch (out_of_memory const&) {  // for its scratch; one that has run asks for no more
        if (plans.proven()) throw;
        return false;
      }
      if (plans.proven()) check(status, "cudnnBackendExecute");
      if (status != CUDNN_STATUS_SUCCESS) static_cast<void>(cudaGetLastError());  // not the next's
      return status == CUDNN_STATUS_SUCCESS;
    });
  }

  cudnnStatus_t run(plan const& chosen, numbers const& given, ops::attention_options const& options,
                    void* workspace, std::vector<binding> tensors) {
    namespace uid = attention_uid;
    tensors.push_back({uid::scale, address(&given.scale)});
    tensors.push_back({uid::masked, address(&given.masked)});
    if (given.window > 0.0F) tensors.push_back({uid::window, address(&given.window)});
    if (!options.alibi_slopes.empty())
      tensors.push_back({uid::slopes, address(options.alibi_slopes.data())});
    if (!options.document_begins.empty()) {
      tensors.push_back({uid::begins, address(options.document_begins.data())});
      tensors.push_back({uid::other, address(&given.other)});
    }
    return chosen.run(handle_.get(), tensors, workspace);
  }

  struct destroy {
    void operator()(cudnnHandle_t made) const { static_cast<void>(cudnnDestroy(made)); }
  };

  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, destroy> handle_;
  attention_backend backend_;
  plan_map forward_, backward_;
};

}  // namespace parallel::cuda::cudnn
