// Attention by cuDNN's fused kernels: a plan for each shape and set of options met so far, for the
// stream it belongs to.
//
// The first call of a shape compiles its plan, which takes about a second;
// later ones only enqueue. A plan that cannot be run the first time, or for whose scratch there is
// no memory, gives way to cuDNN's next proposal. With `tune` the first three that can be built are
// compiled and timed, of which those count that run in the scratch that there is then; the fastest
// is kept. Its number in cuDNN's list is what the table says: equal tables give equal plans. Packed
// documents are a mask, or sequences of their own where somebody has put a plan for as many into
// the table: tuning never does. Scratch: what scratch.hpp says, which has the S x S numbers of
// deterministic gradients, and what else the plan or documents as sequences ask for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/ops/cuda/cudnn/attention_call.hpp>
#include <parallel/ops/cuda/cudnn/attention_graph.hpp>
#include <parallel/ops/cuda/cudnn/document_sequences.hpp>
#include <parallel/ops/cuda/cudnn/plan.hpp>
#include <parallel/ops/cuda/fastest.hpp>
#include <parallel/ops/cuda/first_that_runs.hpp>
#include <parallel/ops/cuda/fused_attention.hpp>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/cuda/scratch_pieces.hpp>

namespace parallel::cuda::cudnn {

class attention_plans final : public fused_attention {
 public:
  explicit attention_plans(stream& s) : stream_(s), table_(made_for(s)) {
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
    return attend(s, out, lse, q, k, v, options).has_value();
  }
  [[nodiscard]] std::optional<part_result> forward_part(
      stream& s, ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
      ops::heads_view<bf16 const> v, ops::attention_options const& options) override {
    return attend(s, in_scratch(q), nullptr, q, k, v, options);
  }

  [[nodiscard]] bool backward(stream& s, ops::heads_view<bf16> dq, ops::heads_view<bf16> dk,
                              ops::heads_view<bf16> dv, ops::heads_view<bf16 const> dout,
                              ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                              ops::heads_view<bf16 const> v, ops::heads_view<bf16 const> out,
                              float const* lse, ops::attention_options const& options) override {
    return differentiate(s, {dq, dk, dv}, dout, q, k, v, out, lse, options).has_value();
  }
  [[nodiscard]] std::optional<part_gradients> backward_part(
      stream& s, ops::heads_view<bf16 const> dout, ops::heads_view<bf16 const> q,
      ops::heads_view<bf16 const> k, ops::heads_view<bf16 const> v, ops::heads_view<bf16 const> out,
      float const* lse, ops::attention_options const& options) override {
    return differentiate(s, {in_scratch(q), in_scratch(k), in_scratch(v)}, dout, q, k, v, out, lse,
                         options);
  }

  void tune(bool on) override { tune_ = on; }
  [[nodiscard]] attention_tuning const& tuning() const override { return table_; }
  void use(attention_tuning table) override {
    require(table.made_for() == table_.made_for(), "attention tuning: made for '", table.made_for(),
            "', but this is '", table_.made_for(), "'; tune again");
    stream_.synchronize();  // plans may be running
    table_ = std::move(table);
    std::erase_if(plans_, [&](auto const& known) {  // what was compiled and is kept stays
      auto const entry = table_.entries().find(known.first);
      return entry == table_.entries().end() || !known.second.proven() ||
             known.second.way().number() != entry->second;
    });
  }

 private:
  static constexpr int most_timed = 3;

  /// A view like another, for which there is memory yet to be found: in scratch, rows one after
  /// another.
  [[nodiscard]] static ops::heads_view<bf16> in_scratch(ops::heads_view<bf16 const> const& like) {
    index const row = like.heads * like.head_dim;
    return {nullptr, like.batch, like.sequence, like.heads, like.head_dim, like.sequence * row,
            row};
  }
  [[nodiscard]] static std::size_t missing_bytes(ops::heads_view<bf16> const& view) {
    return view.data == nullptr ? cuda::detail::heads_bytes(view) : 0;
  }

  /// `out` and lse, which scratch provides where they have no memory; nothing when there is no
  /// plan.
  std::optional<part_result> attend(stream& s, ops::heads_view<bf16> out, float* lse,
                                    ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k,
                                    ops::heads_view<bf16 const> v,
                                    ops::attention_options const& options) {
    device_scope const scope(s.device());
    auto const problem = problem_of(out, q, k, v, options);
    std::size_t const values = missing_bytes(out);
    std::size_t const rows = lse == nullptr ? cuda::detail::attention_row_bytes(q) : 0;
    part_result made;
    std::size_t const tables = cuda::detail::forward_tables_bytes(q, options);
    std::size_t const beside = scratch_piece(values) + scratch_piece(rows) + scratch_piece(tables);
    auto const enqueue = [&](attention_problem const& form, plan const& chosen) {
      std::size_t const left = tables - taken_of_room(chosen.workspace(), form);
      scratch_pieces space(s, {chosen.workspace(), values, rows, left});
      void* const workspace = space.next();
      auto to = space.complete(out);
      auto* const kept = static_cast<float*>(space.next());
      made = {to, lse == nullptr ? kept : lse};
      namespace uid = attention_uid;
      return run(s, chosen, form, options, workspace, space.next(),
                 {{uid::q, address(q.data)},
                  {uid::k, address(k.data)},
                  {uid::v, address(v.data)},
                  {uid::out, to.data},
                  {uid::lse, address(made.lse)}});
    };
    bool const runs = with_form(
        s, problem, documents_of(problem, options),
        [&](attention_problem const&) { return beside; }, enqueue);
    return runs ? std::optional(made) : std::nullopt;
  }

  struct gradients {
    ops::heads_view<bf16> dq, dk, dv;
  };
  /// `to`, likewise.
  std::optional<part_gradients> differentiate(
      stream& s, gradients const& to, ops::heads_view<bf16 const> dout,
      ops::heads_view<bf16 const> q, ops::heads_view<bf16 const> k, ops::heads_view<bf16 const> v,
      ops::heads_view<bf16 const> out, float const* lse, ops::attention_options const& options) {
    device_scope const scope(s.device());
    auto problem = problem_of(out, q, k, v, options);
    problem.backward = true;
    problem.deterministic = s.deterministic();
    problem.dq = strides_of(to.dq);
    problem.dk = strides_of(to.dk);
    problem.dv = strides_of(to.dv);
    problem.dout = strides_of(dout);
    std::size_t const rows = cuda::detail::attention_row_bytes(q);
    std::size_t const queries = missing_bytes(to.dq), keys = missing_bytes(to.dk);
    std::size_t const tables = cuda::detail::backward_tables_bytes(q, options, s.deterministic());
    auto const beside = [&](attention_problem const& form) {
      return scratch_piece(rows) + scratch_piece(query_sums_bytes(form)) + scratch_piece(queries) +
             2 * scratch_piece(keys) + scratch_piece(each_head_bytes(form, form.dk)) +
             scratch_piece(each_head_bytes(form, form.dv)) + scratch_piece(tables);
    };
    part_gradients made;
    auto const enqueue = [&](attention_problem const& form, plan const& chosen) {
      std::size_t const left = tables - taken_of_room(chosen.workspace(), form);
      scratch_pieces space(s,
                           {chosen.workspace(), rows, query_sums_bytes(form), queries, keys, keys,
                            each_head_bytes(form, form.dk), each_head_bytes(form, form.dv), left});
      void* const workspace = space.next();
      void* const own = space.next();
      void* const dq_sum = space.next();
      auto const dq = space.complete(to.dq), dk = space.complete(to.dk), dv = space.complete(to.dv);
      made = {dq, dk, dv};
      void* const dk_each = space.next();
      void* const dv_each = space.next();
      namespace uid = attention_uid;
      std::vector<binding> tensors = {{uid::q, address(q.data)},
                                      {uid::k, address(k.data)},
                                      {uid::v, address(v.data)},
                                      {uid::out, address(out.data)},
                                      {uid::dout, address(dout.data)},
                                      {uid::lse, address(lse)},
                                      {uid::own, own},
                                      {uid::dq, dq.data},
                                      {uid::dk, dk.data},
                                      {uid::dv, dv.data}};
      if (!form.deterministic) tensors.push_back({uid::dq_sum, dq_sum});
      // where documents are a mask, the plan asks for memory for each head's gradients of keys
      if (each_head_bytes(form, form.dk) > 0) {
        tensors.push_back({uid::dk_each, dk_each});
        tensors.push_back({uid::dv_each, dv_each});
      }
      return run(s, chosen, form, options, workspace, space.next(), std::move(tensors));
    };
    bool const runs = with_form(s, problem, documents_of(problem, options), beside, enqueue);
    return runs ? std::optional(made) : std::nullopt;
  }

  [[nodiscard]] static std::string made_for(stream& s) {
    cudaDeviceProp device{};
    cuda::check(cudaGetDeviceProperties(&device, s.device()), "cudaGetDeviceProperties");
    return concat("cuDNN ", cudnnGetVersion(), " on ", std::string_view(device.name), " with ",
                  device.multiProcessorCount, " multiprocessors");
  }

  // cuDNN takes addresses of inputs and outputs alike
  template <class T>
  [[nodiscard]] static void* address(T const* data) {
    return const_cast<T*>(data);
  }

  /// enqueue(form, plan) with documents in the form that the table says: where it has an entry with
  /// sequences for at least as many as there are, that; else a mask. Nothing else asks for
  /// sequences (document_sequences.hpp). On streams that make graphs always a mask: the form may
  /// change from batch to batch, and no plan can be made while a graph is captured.
  template <class Beside, class Enqueue>
  bool with_form(stream& s, attention_problem const& mask, index documents, Beside const& beside,
                 Enqueue const& enqueue) {
    auto form = mask;
    if (documents > 0 && !s.makes_graphs()) {
      form.most_documents = documents;
      auto const entry = table_.entries().lower_bound(form);
      if (entry != table_.entries().end()) form.most_documents = entry->first.most_documents;
      bool const asked_for = entry != table_.entries().end() && entry->first == form &&
                             form.most_documents <= most_documents(mask.batch * mask.sequence);
      if (!asked_for) form = mask;
    }
    return with_plan(s, form, beside(form), [&](plan const& each) { return enqueue(form, each); });
  }

  [[nodiscard]] static graph graph_of(attention_problem const& problem) {
    return problem.backward ? attention_backward_graph(problem) : attention_forward_graph(problem);
  }
  [[nodiscard]] static bool fits(stream& s, plan const& each, attention_problem const& of,
                                 std::size_t beside) {
    auto const taken = taken_of_room(each.workspace(), of);
    return scratch_piece(each.workspace()) + beside - taken <= s.scratch_bytes();
  }
  /// Whether what was enqueued runs.
  template <class Enqueue>
  [[nodiscard]] static bool works(Enqueue const& enqueue) {
    cudnnStatus_t status{};
    try {
      status = enqueue();
    } catch (out_of_memory const&) {  // for its scratch
      return false;
    }
    if (status != CUDNN_STATUS_SUCCESS) static_cast<void>(cudaGetLastError());  // not the next's
    return status == CUDNN_STATUS_SUCCESS;
  }

  /// enqueue(plan) with the plan of a problem, found when it is first asked for; false when cuDNN
  /// has none that runs. `beside`: bytes of scratch that it takes beside the plan's. Throws `error`
  /// when a plan fails that has run before, which is not the plan, or the one that the table says.
  template <class Enqueue>
  bool with_plan(stream& s, attention_problem const& problem, std::size_t beside,
                 Enqueue const& enqueue) {
    auto const entry = table_.entries().find(problem);
    bool const known = entry != table_.entries().end();
    auto at = plans_.find(problem);
    if (at == plans_.end()) {
      at = plans_
               .emplace(problem,
                        plans_of(handle_.get(), graph_of(problem), known ? entry->second : 0))
               .first;
    }
    auto& plans = at->second;
    auto const tried = [&](plan const& each) { return works([&] { return enqueue(each); }); };
    bool const runs = plans([&](plan const& each) {
      if (!plans.proven()) return tried(each);
      check(enqueue(each), "cudnnBackendExecute");
      return true;
    });
    require(!known || (runs && plans.way().number() == entry->second),
            "attention tuning: cuDNN does not run its plan ", entry->second, " of attention over ",
            problem.sequence, " positions by ", problem.heads, " heads; tune again");
    if (!runs || known || !tune_ || s.capturing()) return runs;
    plans.choose(most_timed, [&](int count, auto const& plan_at) {
      return fastest(s, count, [&](int i) {
        return fits(s, plan_at(i), problem, beside) && tried(plan_at(i));
      });
    });
    table_.set(problem, plans.way().number());
    return true;
  }

  cudnnStatus_t run(stream& s, plan const& chosen, attention_problem const& problem,
                    ops::attention_options const& options, void* workspace, void* tables,
                    std::vector<binding> tensors) {
    namespace uid = attention_uid;
    attention_numbers const given(options, problem);
    bool const apart = problem.most_documents > 0;
    if (apart)
      add_document_tables(s, problem, options.document_begins.data(),
                          static_cast<std::byte*>(tables), tensors);
    if (problem.backward) tensors.push_back({uid::one, address(&given.one)});
    tensors.push_back({uid::scale, address(&given.scale)});
    if (!problem.apart) tensors.push_back({uid::masked, address(&given.masked)});
    if (problem.window >= 0) tensors.push_back({uid::window, address(&given.window)});
    if (problem.alibi) {
      tensors.push_back({uid::slopes, address(options.alibi_slopes.data())});
      if (problem.apart) tensors.push_back({uid::apart, address(&given.apart)});
    }
    bool const masked = problem.documents && !apart;
    if (masked) {
      index const first_row = problem.whole > 0 ? options.positions.first_query : 0;
      tensors.push_back({uid::begins, address(options.document_begins.data() + first_row)});
      if (problem.whole > 0) tensors.push_back({uid::first_key, address(&given.first_key)});
    }
    if (masked || (problem.apart && problem.window >= 0))
      tensors.push_back({uid::other, address(&given.other)});
    return chosen.run(handle_.get(), tensors, workspace);
  }

  struct destroy {
    void operator()(cudnnHandle_t made) const { static_cast<void>(cudnnDestroy(made)); }
  };

  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, destroy> handle_;
  stream& stream_;
  attention_backend backend_;
  attention_tuning table_;
  std::map<attention_problem, first_that_runs<plans_of>> plans_;
  bool tune_ = false;
};

}  // namespace parallel::cuda::cudnn
