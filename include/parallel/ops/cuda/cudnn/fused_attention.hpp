// Attention by cuDNN's fused kernels: a plan for each shape and set of options so far, for the
// stream it belongs to.
//
// The first call of a shape compiles its plan, which takes about a second; later ones only enqueue.
// If a plan cannot be run the first time, or there is no memory for its scratch, cuDNN's next
// proposal replaces it. With `tune` the first three plans that can be built are compiled and timed,
// those that fit the available scratch; the fastest is kept. Its number in cuDNN's list is what the
// table stores: equal tables give equal plans. Packed documents are a mask, or separate
// sequences if a user has put a plan for at least that number of documents into the table: tuning
// never does. Scratch: as in scratch.hpp, which includes the S x S numbers of deterministic
// gradients, and what else the plan or documents as sequences request.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/cuda/attention/fused_attention.hpp>
#include <parallel/ops/cuda/cudnn/attention_call.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/document_sequences.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/cuda/tuning/candidate_selector.hpp>
#include <parallel/ops/cuda/tuning/fastest.hpp>

namespace parallel::cuda {

/// A stream's scratch memory for one operation, in pieces, which are taken in the order in which
/// their sizes were given.
class scratch_pieces {
 public:
  scratch_pieces(stream& s, std::initializer_list<std::size_t> bytes) {
    std::size_t total = 0;
    for (std::size_t const size : bytes) {
      offsets_.push_back(total);
      total += scratch_piece(size);
    }
    begin_ = s.scratch(total);
  }
  [[nodiscard]] void* next() { return begin_ + offsets_[taken_++]; }
  /// Takes the next piece, which becomes the memory of the view if it has none.
  [[nodiscard]] ops::heads_view<bf16> complete(ops::heads_view<bf16> view) {
    auto* const memory = static_cast<bf16*>(next());
    if (view.data == nullptr) view.data = memory;
    return view;
  }

 private:
  std::byte* begin_ = nullptr;
  std::vector<std::size_t> offsets_;
  std::size_t taken_ = 0;
};

}  // namespace parallel::cuda

namespace parallel::cuda::cudnn {

/// Fused attention by cuDNN; a plan is made for each problem that occurs.
class attention_plans final : public fused_attention {
 public:
  explicit attention_plans(stream& s) : stream_(s), table_(made_for(s)) {
    device_scope const scope(s.device());
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle), "cudnnCreate");
    handle_.reset(handle);
    check(cudnnSetStream(handle, s.get()), "cudnnSetStream");
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
    return attend(s, out, lse, q, k, v, options).has_value();
  }
  [[nodiscard]] std::optional<part_result> forward_part(
      stream& s, ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
      ops::heads_view<bf16 const> v, ops::attention_options const& options) override {
    return attend(s, in_scratch(q), nullptr, q, k, v, options);
  }

  [[nodiscard]] bool backward(stream& s,
                              ops::attention_backward_arguments<bf16> const& a) override {
    return differentiate(s, a).has_value();
  }
  [[nodiscard]] std::optional<part_gradients> backward_part(
      stream& s, ops::extend_attention_backward_arguments<bf16> const& a) override {
    return differentiate(s, {.dq = in_scratch(a.q),
                             .dk = in_scratch(a.k),
                             .dv = in_scratch(a.v),
                             .dout = a.dout,
                             .q = a.q,
                             .k = a.k,
                             .v = a.v,
                             .out = a.out,
                             .lse = a.lse,
                             .options = a.options});
  }

  void tune(bool enabled) override { tune_ = enabled; }
  [[nodiscard]] attention_tuning const& tuning() const override { return table_; }
  void use(attention_tuning table) override {
    require(table.made_for() == table_.made_for(), "attention tuning: made for '", table.made_for(),
            "', but this is '", table_.made_for(), "'; tune again");
    stream_.synchronize();  // plans may be running
    table_ = std::move(table);
    std::erase_if(plans_, [&](auto const& known) {  // a compiled plan that is in the table stays
      auto const entry = table_.entries().find(known.first);
      return entry == table_.entries().end() || !known.second.has_selected() ||
             known.second.selected().number() != entry->second;
    });
  }

 private:
  static constexpr int max_timed = 3;

  /// A view with the extents of `view` and no memory yet: scratch will provide it, rows one after
  /// another.
  [[nodiscard]] static ops::heads_view<bf16> in_scratch(ops::heads_view<bf16 const> const& view) {
    index const row = view.heads * view.head_dim;
    return {nullptr, view.batch, view.sequence, view.heads, view.head_dim, view.sequence * row,
            row};
  }
  [[nodiscard]] static std::size_t missing_bytes(ops::heads_view<bf16> const& view) {
    return view.data == nullptr ? cuda::detail::heads_bytes(view) : 0;
  }

  /// Enqueues the forward pass. Scratch provides `out` and lse if they have no memory. Returns
  /// nullopt when there is no plan.
  std::optional<part_result> attend(stream& s, ops::heads_view<bf16> out, float* lse,
                                    ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                                    ops::heads_view<bf16 const> v,
                                    ops::attention_options const& options) {
    device_scope const scope(s.device());
    auto const problem = problem_of(out, q, k, v, options);
    std::size_t const values = missing_bytes(out);
    std::size_t const rows = lse == nullptr ? cuda::detail::attention_row_bytes(q) : 0;
    part_result result;
    std::size_t const tables = cuda::detail::forward_tables_bytes(q, options);
    std::size_t const other_bytes =
        scratch_piece(values) + scratch_piece(rows) + scratch_piece(tables);
    auto const enqueue = [&](attention_problem const& form, plan const& chosen) {
      std::size_t const left = tables - used_document_reserve(chosen.workspace(), form);
      scratch_pieces space(s, {chosen.workspace(), values, rows, left});
      void* const workspace = space.next();
      auto to = space.complete(out);
      auto* const lse_memory = static_cast<float*>(space.next());
      result = {to, lse == nullptr ? lse_memory : lse};
      namespace uid = attention_uid;
      return run(s, chosen, form, options, workspace, space.next(),
                 {{uid::q, address(q.data)},
                  {uid::k, address(k.data)},
                  {uid::v, address(v.data)},
                  {uid::out, to.data},
                  {uid::lse, address(result.lse)}});
    };
    bool const runs = with_form(
        s, problem, documents_of(problem, options),
        [&](attention_problem const&) { return other_bytes; }, enqueue);
    return runs ? std::optional(result) : std::nullopt;
  }

  /// Enqueues the backward pass; scratch provides dq, dk and dv if they have no memory.
  std::optional<part_gradients> differentiate(stream& s,
                                              ops::attention_backward_arguments<bf16> const& a) {
    device_scope const scope(s.device());
    auto problem = problem_of(a.out, a.q, a.k, a.v, a.options);
    problem.backward = true;
    problem.deterministic = s.deterministic();
    problem.dq = strides_of(a.dq);
    problem.dk = strides_of(a.dk);
    problem.dv = strides_of(a.dv);
    problem.dout = strides_of(a.dout);
    std::size_t const rows = cuda::detail::attention_row_bytes(a.q);
    std::size_t const queries = missing_bytes(a.dq), keys = missing_bytes(a.dk);
    std::size_t const tables =
        cuda::detail::backward_tables_bytes(a.q, a.options, s.deterministic());
    auto const other_bytes = [&](attention_problem const& form) {
      return scratch_piece(rows) + scratch_piece(query_sums_bytes(form)) + scratch_piece(queries) +
             2 * scratch_piece(keys) + scratch_piece(per_head_bytes(form, form.dk)) +
             scratch_piece(per_head_bytes(form, form.dv)) + scratch_piece(tables);
    };
    part_gradients result;
    auto const enqueue = [&](attention_problem const& form, plan const& chosen) {
      std::size_t const left = tables - used_document_reserve(chosen.workspace(), form);
      scratch_pieces space(s,
                           {chosen.workspace(), rows, query_sums_bytes(form), queries, keys, keys,
                            per_head_bytes(form, form.dk), per_head_bytes(form, form.dv), left});
      void* const workspace = space.next();
      void* const row_dots = space.next();
      void* const dq_sum = space.next();
      auto const dq = space.complete(a.dq), dk = space.complete(a.dk), dv = space.complete(a.dv);
      result = {dq, dk, dv};
      void* const dk_per_head = space.next();
      void* const dv_per_head = space.next();
      namespace uid = attention_uid;
      std::vector<binding> tensors = {{uid::q, address(a.q.data)},
                                      {uid::k, address(a.k.data)},
                                      {uid::v, address(a.v.data)},
                                      {uid::out, address(a.out.data)},
                                      {uid::dout, address(a.dout.data)},
                                      {uid::lse, address(a.lse.data())},
                                      {uid::row_dots, row_dots},
                                      {uid::dq, dq.data},
                                      {uid::dk, dk.data},
                                      {uid::dv, dv.data}};
      if (!form.deterministic) tensors.push_back({uid::dq_sum, dq_sum});
      // if documents are a mask, the plan requests memory for each head's gradients of keys
      if (per_head_bytes(form, form.dk) > 0) {
        tensors.push_back({uid::dk_per_head, dk_per_head});
        tensors.push_back({uid::dv_per_head, dv_per_head});
      }
      return run(s, chosen, form, a.options, workspace, space.next(), std::move(tensors));
    };
    bool const runs = with_form(s, problem, documents_of(problem, a.options), other_bytes, enqueue);
    return runs ? std::optional(result) : std::nullopt;
  }

  [[nodiscard]] static std::string made_for(stream& s) {
    cudaDeviceProp device{};
    cuda::check(cudaGetDeviceProperties(&device, s.device()), "cudaGetDeviceProperties");
    return concat("cuDNN ", cudnnGetVersion(), " on ", std::string_view(device.name), " with ",
                  device.multiProcessorCount, " multiprocessors");
  }

  // cuDNN takes the addresses of inputs and outputs as void*
  template <class T>
  [[nodiscard]] static void* address(T const* data) {
    return const_cast<T*>(data);
  }

  /// Calls enqueue(form, plan) with documents in the form that the table requests: as sequences if
  /// the table has an entry for at least their number; else as a mask. Nothing else requests
  /// sequences (document_sequences.hpp). On streams that make graphs documents are always a mask:
  /// the form may change from batch to batch, and no plan can be made while a graph is captured.
  template <class Beside, class Enqueue>
  bool with_form(stream& s, attention_problem const& mask, index documents,
                 Beside const& other_bytes, Enqueue const& enqueue) {
    auto form = mask;
    if (documents > 0 && !s.runs_graphs()) {
      form.max_documents = documents;
      auto const entry = table_.entries().lower_bound(form);
      if (entry != table_.entries().end()) form.max_documents = entry->first.max_documents;
      bool const asked_for = entry != table_.entries().end() && entry->first == form &&
                             form.max_documents <= max_documents(mask.batch * mask.sequence);
      if (!asked_for) form = mask;
    }
    return with_plan(s, form, other_bytes(form),
                     [&](plan const& candidate) { return enqueue(form, candidate); });
  }

  [[nodiscard]] static graph graph_of(attention_problem const& problem) {
    return problem.backward ? attention_backward_graph(problem) : attention_forward_graph(problem);
  }
  [[nodiscard]] static bool fits(stream& s, plan const& candidate, attention_problem const& form,
                                 std::size_t other_bytes) {
    auto const reused = used_document_reserve(candidate.workspace(), form);
    return scratch_piece(candidate.workspace()) + other_bytes - reused <= s.scratch_bytes();
  }
  /// Whether the enqueued work runs.
  template <class Enqueue>
  [[nodiscard]] static bool works(Enqueue const& enqueue) {
    cudnnStatus_t status{};
    try {
      status = enqueue();
    } catch (out_of_memory const&) {  // no memory for its scratch
      return false;
    }
    if (status != CUDNN_STATUS_SUCCESS) static_cast<void>(cudaGetLastError());  // clears the error
    return status == CUDNN_STATUS_SUCCESS;
  }

  /// Calls enqueue(plan) with the plan of a problem, which is found at its first use; returns false
  /// when cuDNN has none that runs. `other_bytes`: bytes of scratch in addition to the plan's.
  /// Throws `error` when a plan fails that has run before, which is not the plan's fault, or when
  /// the plan that the table names fails.
  template <class Enqueue>
  bool with_plan(stream& s, attention_problem const& problem, std::size_t other_bytes,
                 Enqueue const& enqueue) {
    auto const entry = table_.entries().find(problem);
    bool const known = entry != table_.entries().end();
    auto found = plans_.find(problem);
    if (found == plans_.end()) {
      found = plans_
                  .emplace(problem,
                           plans_of(handle_.get(), graph_of(problem), known ? entry->second : 0))
                  .first;
    }
    auto& plans = found->second;
    auto const tried = [&](plan const& candidate) {
      return works([&] { return enqueue(candidate); });
    };
    bool const runs = plans([&](plan const& candidate) {
      if (!plans.has_selected()) return tried(candidate);
      check(enqueue(candidate), "cudnnBackendExecute");
      return true;
    });
    require(!known || (runs && plans.selected().number() == entry->second),
            "attention tuning: cuDNN does not run its plan ", entry->second, " of attention over ",
            problem.sequence, " positions by ", problem.heads, " heads; tune again");
    if (!runs || known || !tune_ || s.is_capturing()) return runs;
    plans.choose(max_timed, [&](int count, auto const& plan_at) {
      return fastest(s, count, [&](int i) {
        return fits(s, plan_at(i), problem, other_bytes) && tried(plan_at(i));
      });
    });
    table_.set(problem, plans.selected().number());
    return true;
  }

  cudnnStatus_t run(stream& s, plan const& chosen, attention_problem const& problem,
                    ops::attention_options const& options, void* workspace, void* tables,
                    std::vector<binding> tensors) {
    namespace uid = attention_uid;
    attention_numbers const numbers(options, problem);
    bool const as_sequences = problem.max_documents > 0;
    if (as_sequences)
      add_document_tables(s, problem, options.document_begins.data(),
                          static_cast<std::byte*>(tables), tensors);
    if (problem.backward) tensors.push_back({uid::one, address(&numbers.one)});
    tensors.push_back({uid::scale, address(&numbers.scale)});
    if (!problem.queries_after_keys) tensors.push_back({uid::masked, address(&numbers.masked)});
    if (problem.window >= 0) tensors.push_back({uid::window, address(&numbers.window)});
    if (problem.alibi) {
      tensors.push_back({uid::slopes, address(options.alibi_slopes.data())});
      if (problem.queries_after_keys)
        tensors.push_back({uid::distance, address(&numbers.query_distance)});
    }
    bool const masked = problem.documents && !as_sequences;
    if (masked) {
      index const first_row = problem.full_sequence > 0 ? options.positions.first_query : 0;
      tensors.push_back({uid::begins, address(options.document_begins.data() + first_row)});
      if (problem.full_sequence > 0)
        tensors.push_back({uid::first_key, address(&numbers.first_key)});
    }
    if (masked || (problem.queries_after_keys && problem.window >= 0))
      tensors.push_back({uid::other, address(&numbers.other)});
    return chosen.run(handle_.get(), tensors, workspace);
  }

  struct destroy {
    void operator()(cudnnHandle_t handle) const { static_cast<void>(cudnnDestroy(handle)); }
  };

  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, destroy> handle_;
  stream& stream_;
  attention_backend backend_;
  attention_tuning table_;
  std::map<attention_problem, candidate_selector<plans_of>> plans_;
  bool tune_ = false;
};

}  // namespace parallel::cuda::cudnn
