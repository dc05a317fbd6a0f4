// matmul on cuda::stream by cuBLASLt: float, bf16, and bf16 into float. The addition of C or
// another matrix needs no separate pass, and neither do a bias and its gradient. For plain C++
// compilers; links with cublasLt.
//
// A `cublaslt` belongs to a stream (stream::library) and caches a plan for every shape it has seen.
// The algorithm of a plan determines the bits of results: it is that of the tuning table if it has
// an entry, else the library's first guess, which is the same for the same library and device. So
// ranks with equal tables compute equal bits; tuning.hpp explains how they get equal tables.
//
// Products run one after another on their stream. Each stream has its own cublaslt and workspace;
// weight gradients may have their own stream
// (train::pipeline_options::overlap_weight_gradients).
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/affine.hpp>
#include <parallel/ops/cuda/matmul.hpp>
#include <parallel/ops/cuda/matmul/cublaslt_plan.hpp>
#include <parallel/ops/cuda/matmul/matmul_shape.hpp>
#include <parallel/ops/cuda/matmul/matmul_tuning.hpp>
#include <parallel/ops/cuda/tuning/fastest.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::cuda {

class cublaslt {
 public:
  explicit cublaslt(stream& s) : stream_(s), library_(create(s)), table_(made_for(s)) {}

  cublaslt(cublaslt&&) = delete;

  /// Enqueues the product of a shape whose m, n and k are not zero. `addend` is the matrix that is
  /// added, if the shape accumulates. `bias`, aligned to 16 bytes, is the bias that is added or the
  /// memory for the gradient of one, as the shape's epilogue states. Returns false and does nothing
  /// when the library has no algorithm for it. The first product of a shape takes about 100
  /// microseconds more.
  [[nodiscard]] bool multiply(matmul_shape const& shape, void* c, void const* a, void const* b,
                              void const* addend, void const* bias = nullptr) {
    device_scope const scope(stream_.device());
    product_entry& product = plans_.try_emplace(shape, shape).first->second;
    operands const arguments{c, a, b, shape.accumulate ? addend : nullptr};
    if (shape.epilogue != matmul_epilogue::none) product.plan.set_bias(bias);
    if (!product.decided) {
      auto const guesses = product.plan.guesses(library_.get(), 1);
      if (!guesses.empty()) product.algorithm = guesses.front();
      product.decided = true;
    }
    if (!product.algorithm) return false;
    if (tune_ && !table_.entries().contains(shape) && !stream_.is_capturing())
      measure(shape, product, arguments);
    check(stream_.run("matmul", [&] { return run(product.plan, *product.algorithm, arguments); }),
          "cublasLtMatmul");
    return true;
  }

  /// Runs fused(), which multiplies a `shape` with an epilogue and returns whether it could; or
  /// separate(), which runs the product and the epilogue one after the other, if the library has no
  /// algorithm for the former, or tuning found the latter faster. `results` is the memory that they
  /// add to: timing uses it and restores it afterwards.
  template <class Fused, class Apart>
  void multiply_or(matmul_shape const& shape, std::initializer_list<std::span<std::byte>> results,
                   Fused const& fused, Apart const& separate) {
    bool const was_known = table_.entries().contains(shape);
    if (!fused()) return separate();
    if (was_known || !table_.entries().contains(shape)) return;  // this call timed nothing
    std::vector<device_memory> copies_of_results;
    try {
      for (auto const result : results) copy(result.data(), result.size(), copies_of_results);
    } catch (out_of_memory const&) {
      return;
    }
    int const best =
        fastest(stream_, 2, [&](int way) { return way == 0 ? fused() : (separate(), true); });
    std::size_t index_of_copy = 0;
    for (auto const result : results)
      check(cudaMemcpyAsync(result.data(), copies_of_results[index_of_copy++].get(), result.size(),
                            cudaMemcpyDeviceToDevice, stream_.get()),
            "cudaMemcpyAsync");
    if (best != 1) return;
    plans_.at(shape).algorithm.reset();
    table_.set(shape, {.guess = matmul_algorithm::separate});
  }

  /// From now on a shape without an entry in the table is timed at its first use (enabled), or
  /// takes the library's first guess (disabled, the initial state). Timing tries up to 16
  /// algorithms and takes some milliseconds a shape; it blocks the caller, and allocates up to
  /// twice the size of the device's cache and a copy of C meanwhile. If that memory is not
  /// available, the shape takes the first guess. Timing cannot be captured: a shape whose first use
  /// is inside the capture of a graph takes the first guess, and is timed at its first use outside
  /// of one.
  void tune(bool enabled) { tune_ = enabled; }

  /// The results of timing here, and the entries that `use` added.
  [[nodiscard]] matmul_tuning const& tuning() const { return table_; }

  /// From now on `table` decides; earlier timings and guesses are dropped. Throws `error`, and
  /// changes nothing, when the table was made for another library or device, or cuBLASLt refuses an
  /// entry.
  void use(matmul_tuning table) {
    require(table.made_for() == table_.made_for(), "matmul tuning: made for '", table.made_for(),
            "', but this is '", table_.made_for(), "'; tune again");
    device_scope const scope(stream_.device());
    std::map<matmul_shape, product_entry> plans;
    for (auto const& [shape, algorithm] : table.entries()) {
      product_entry& product = plans.try_emplace(shape, shape).first->second;
      product.decided = true;
      if (algorithm.guess == matmul_algorithm::separate) continue;
      product.algorithm = algorithm;
      require(product.plan.takes(library_.get(), *product.algorithm),
              "matmul tuning: cuBLASLt refuses the algorithm of the product with m ", shape.m,
              ", n ", shape.n, ", k ", shape.k, "; tune again");
    }
    plans_ = std::move(plans);
    table_ = std::move(table);
  }

 private:
  struct operands {
    void* c;
    void const* a;
    void const* b;
    void const* addend;  // c, another matrix, or null
  };

  struct product_entry {
    explicit product_entry(matmul_shape const& shape) : plan(shape) {}
    cublaslt_plan plan;
    bool decided = false;
    std::optional<matmul_algorithm> algorithm;  // if decided, nullopt: no algorithm exists
  };

  struct destroy {
    void operator()(cublasLtHandle_t h) const { static_cast<void>(cublasLtDestroy(h)); }
  };
  using handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, destroy>;

  struct free_enqueued {
    cudaStream_t stream;
    void operator()(void* memory) const { static_cast<void>(cudaFreeAsync(memory, stream)); }
  };
  using device_memory = std::unique_ptr<void, free_enqueued>;

  [[nodiscard]] static handle create(stream& s) {
    device_scope const scope(s.device());
    cublasLtHandle_t created = nullptr;
    check(cublasLtCreate(&created), "cublasLtCreate");
    return handle(created);
  }

  [[nodiscard]] static std::string made_for(stream& s) {
    cudaDeviceProp device{};
    check(cudaGetDeviceProperties(&device, s.device()), "cudaGetDeviceProperties");
    return concat("cuBLASLt ", cublasLtGetVersion(), " on ", std::string_view(device.name),
                  " with ", device.multiProcessorCount, " multiprocessors");
  }

  [[nodiscard]] cublasStatus_t run(cublaslt_plan& plan, matmul_algorithm const& algorithm,
                                   operands const& x) {
    return plan.run(library_.get(), algorithm, x.c, x.a, x.b, x.addend,
                    stream_.scratch(product_workspace_bytes), stream_.get());
  }

  /// Times the algorithms and stores the fastest in the cached plan and the table.
  void measure(matmul_shape const& shape, product_entry& product, operands const& arguments) {
    std::vector<device_memory> memory;
    std::vector<operands> rotation;
    try {
      rotation = copies(shape, arguments, memory);
    } catch (out_of_memory const&) {
      return;
    }
    auto const guesses = product.plan.guesses(library_.get());
    std::size_t run_count = 0;
    int const best = fastest(stream_, static_cast<int>(guesses.size()), [&](int way) {
      auto const status = run(product.plan, guesses[static_cast<std::size_t>(way)],
                              rotation[run_count++ % rotation.size()]);
      if (status != CUBLAS_STATUS_SUCCESS)
        static_cast<void>(cudaGetLastError());  // clears the error
      return status == CUBLAS_STATUS_SUCCESS;
    });
    if (best < 0) return;
    product.algorithm = guesses[static_cast<std::size_t>(best)];
    table_.set(shape, *product.algorithm);
  }

  /// Copies to new memory, which `memory` owns. Throws `out_of_memory`.
  void* copy(void const* from, std::size_t size, std::vector<device_memory>& memory) {
    void* to = nullptr;
    check(cudaMallocAsync(&to, size, stream_.get()), "cudaMallocAsync of operands for tuning");
    memory.push_back(device_memory(to, free_enqueued{stream_.get()}));
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream_.get()),
          "cudaMemcpyAsync");
    return to;
  }

  /// Sets of operands that timed runs use in turn, so that a run does not find in the cache what
  /// the previous run left there. They are copies, since times depend on the numbers multiplied.
  /// Large operands, which no cache holds, are not copied, except a C that would be added to.
  [[nodiscard]] std::vector<operands> copies(matmul_shape const& shape, operands const& arguments,
                                             std::vector<device_memory>& memory) {
    auto const bytes = [](index rows, index columns, dtype type) {
      return static_cast<std::size_t>(rows * columns) * size_of(type);
    };
    std::size_t const bytes_a = bytes(shape.m, shape.k, shape.input);
    std::size_t const bytes_b = bytes(shape.k, shape.n, shape.input);
    std::size_t const bytes_c = bytes(shape.m, shape.n, shape.output);
    auto const copied = [&](void const* from, std::size_t size) {
      return copy(from, size, memory);
    };
    int cache = 0;
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, stream_.device()),
          "cudaDeviceGetAttribute");
    bool const in_place = arguments.addend == arguments.c;
    bool const other_addend = arguments.addend != nullptr && !in_place;
    auto const sets =
        std::min<std::size_t>(16, 2 * static_cast<std::size_t>(cache) /
                                      (bytes_a + bytes_b + (other_addend ? 2 : 1) * bytes_c));
    std::vector<operands> operand_sets;
    for (std::size_t i = 0; i < sets; ++i) {
      operands set{copied(arguments.c, bytes_c), copied(arguments.a, bytes_a),
                   copied(arguments.b, bytes_b), nullptr};
      set.addend = other_addend ? copied(arguments.addend, bytes_c) : in_place ? set.c : nullptr;
      operand_sets.push_back(set);
    }
    if (operand_sets.empty()) {
      operand_sets.push_back(arguments);
      if (in_place) operand_sets.back().c = copied(arguments.c, bytes_c);
      if (in_place) operand_sets.back().addend = operand_sets.back().c;
    }
    return operand_sets;
  }

  stream& stream_;
  handle library_;
  matmul_tuning table_;
  std::map<matmul_shape, product_entry> plans_;
  bool tune_ = false;
};

/// Types and shapes for which cuBLASLt has no algorithm, including k = 0, run on the plain kernel.
template <class C, class T>
void enqueue(stream& s, ops::matmul_arguments<C, T> const& a) {
  if (a.c.empty()) return;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>) {
    auto const shape = shape_of(a.c, a.a, a.b, a.options, a.addend);
    if (shape.k > 0 &&
        s.library<cublaslt>().multiply(shape, a.c.data(), a.a.data(), a.b.data(), a.addend.data()))
      return;
  }
  plain_matmul(s, a);
}

/// If cuBLASLt has no algorithm, or the bias is not aligned, the bias is added after the product.
template <class T>
void enqueue(stream& s, ops::affine_arguments<T> const& a) {
  if (a.y.empty()) return;
  auto shape = shape_of(a.y, a.x, a.weight, {.transpose_b = true, .accumulate = !a.addend.empty()},
                        a.addend);
  shape.epilogue = matmul_epilogue::bias;
  if (shape.k > 0 && alignment_of(a.bias.data()) == 16 &&
      s.library<cublaslt>().multiply(shape, a.y.data(), a.x.data(), a.weight.data(),
                                     a.addend.data(), a.bias.data()))
    return;
  ops::matmul(s, a.y, a.x, a.weight, {.transpose_b = true});
  ops::add_bias(s, a.y, a.bias, a.addend);
}

/// The library overwrites the memory of the bias' gradient, so the gradient is written to the end
/// of the product's scratch and added from there. If the library has no algorithm, or one that is
/// slower than reading dy again, the gradient has its own pass.
template <class T>
void enqueue(stream& s, ops::affine_backward_weight_arguments<T> const& a) {
  ops::matmul_options const product{.transpose_a = true, .accumulate = a.accumulate};
  auto const separate = [&] {
    ops::matmul(s, a.dweight, a.dy, a.x, product);
    ops::add_bias_backward(s, a.dbias, a.dy);
  };
  auto shape = shape_of(a.dweight, a.dy, a.x, product);
  shape.epilogue = matmul_epilogue::bias_gradient;
  if (a.dweight.empty() || shape.k == 0) return separate();
  auto& products = s.library<cublaslt>();
  auto const fused = [&] {
    auto* const sums = s.scratch(product_workspace_bytes) + workspace_of(shape);
    if (!products.multiply(shape, a.dweight.data(), a.dy.data(), a.x.data(),
                           a.accumulate ? a.dweight.data() : nullptr, sums))
      return false;
    ops::add(s, a.dbias.span(),
             std::span(reinterpret_cast<accumulate_t<T> const*>(sums),
                       static_cast<std::size_t>(a.dbias.size())));
    return true;
  };
  products.multiply_or(
      shape, {std::as_writable_bytes(a.dweight.span()), std::as_writable_bytes(a.dbias.span())},
      fused, separate);
}

}  // namespace parallel::cuda
