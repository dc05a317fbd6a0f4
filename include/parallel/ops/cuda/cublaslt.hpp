// matmul on cuda::stream by cuBLASLt: float, bf16, and bf16 into float; what is added, C or another
// matrix, costs no pass of its own, and neither do a bias and its gradient. For plain C++
// compilers; links with cublasLt.
//
// A `cublaslt` belongs to a stream (stream::library) and keeps a plan for every shape it has met.
// Which algorithm a plan takes decides the bits of results: that of its table where this has one,
// else the library's first guess, which is the same for the same library and device. So ranks with
// equal tables compute equal bits; tuning.hpp says how they get them.
//
// Products run one after another on their stream. Each stream has its own cublaslt and workspace;
// weight gradients may have one of their own (train::pipeline_options::overlap_weight_gradients).
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
#include <parallel/ops/cuda/cublaslt_plan.hpp>
#include <parallel/ops/cuda/fastest.hpp>
#include <parallel/ops/cuda/matmul.hpp>
#include <parallel/ops/cuda/matmul_shape.hpp>
#include <parallel/ops/cuda/matmul_tuning.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::cuda {

class cublaslt {
 public:
  explicit cublaslt(stream& s) : stream_(s), library_(create(s)), table_(made_for(s)) {}

  cublaslt(cublaslt const&) = delete;
  cublaslt& operator=(cublaslt const&) = delete;

  /// Enqueues the product of a shape whose m, n and k are not zero; `addend` is what it
  /// accumulates to, where it does, and `bias`, aligned to 16 bytes, where its bias is or the
  /// gradient of one goes. False, and nothing done, when the library has no algorithm for it. The
  /// first of a shape takes some 100 microseconds more.
  [[nodiscard]] bool multiply(matmul_shape const& shape, void* c, void const* a, void const* b,
                              void const* addend, void const* bias = nullptr) {
    device_scope const scope(stream_.device());
    known& product = plans_.try_emplace(shape, shape).first->second;
    operands const given{c, a, b, shape.accumulate ? addend : nullptr};
    if (shape.epilogue != matmul_epilogue::none) product.plan.place_bias(bias);
    if (!product.decided) {
      auto const guesses = product.plan.guesses(library_.get(), 1);
      if (!guesses.empty()) product.algorithm = guesses.front();
      product.decided = true;
    }
    if (!product.algorithm) return false;
    if (tune_ && !table_.entries().contains(shape) && !stream_.capturing())
      measure(shape, product, given);
    check(stream_.run("matmul", [&] { return run(product.plan, *product.algorithm, given); }),
          "cublasLtMatmul");
    return true;
  }

  /// fused(), which multiplies a `shape` that does something beside and says whether it could; or
  /// apart(), which does the same one after the other, where the library has no algorithm for that,
  /// or tuning found it to be faster. What they add to is `results`: they are timed on these, which
  /// are what they were afterwards.
  template <class Fused, class Apart>
  void multiply_or(matmul_shape const& shape, std::initializer_list<std::span<std::byte>> results,
                   Fused const& fused, Apart const& apart) {
    bool const was_known = table_.entries().contains(shape);
    if (!fused()) return apart();
    if (was_known || !table_.entries().contains(shape)) return;  // nothing was timed just now
    std::vector<device_memory> kept;
    try {
      for (auto const result : results) copy(result.data(), result.size(), kept);
    } catch (out_of_memory const&) {
      return;
    }
    int const best =
        fastest(stream_, 2, [&](int way) { return way == 0 ? fused() : (apart(), true); });
    std::size_t next = 0;
    for (auto const result : results)
      check(cudaMemcpyAsync(result.data(), kept[next++].get(), result.size(),
                            cudaMemcpyDeviceToDevice, stream_.get()),
            "cudaMemcpyAsync");
    if (best != 1) return;
    plans_.at(shape).algorithm.reset();
    table_.set(shape, {.guess = matmul_algorithm::apart});
  }

  /// From now on, a shape without an entry in the table is timed when it comes (on), or takes the
  /// library's first guess (off, as in the beginning). Timing tries up to 16 algorithms, some
  /// milliseconds a shape, blocks the caller, and asks the device for up to twice its cache and a
  /// copy of C meanwhile; a shape for which that is not there takes the first guess. None of that
  /// can be captured: a shape that is first met while a graph is
  /// being captured takes the first guess, and is timed when it comes outside of one.
  void tune(bool on) { tune_ = on; }

  /// What was timed here, and what `use` brought.
  [[nodiscard]] matmul_tuning const& tuning() const { return table_; }

  /// From now on `table` decides; what was timed or guessed before is forgotten. Throws `error`,
  /// and changes nothing, when it was made for another library or device, or cuBLASLt refuses an
  /// entry.
  void use(matmul_tuning table) {
    require(table.made_for() == table_.made_for(), "matmul tuning: made for '", table.made_for(),
            "', but this is '", table_.made_for(), "'; tune again");
    device_scope const scope(stream_.device());
    std::map<matmul_shape, known> plans;
    for (auto const& [shape, algorithm] : table.entries()) {
      known& product = plans.try_emplace(shape, shape).first->second;
      product.decided = true;
      if (algorithm.guess == matmul_algorithm::apart) continue;
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

  struct known {
    explicit known(matmul_shape const& shape) : plan(shape) {}
    cublaslt_plan plan;
    bool decided = false;
    std::optional<matmul_algorithm> algorithm;  // once decided, none: there is none
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

  /// Takes the fastest algorithm into the plan and the table.
  void measure(matmul_shape const& shape, known& product, operands const& given) {
    std::vector<device_memory> memory;
    std::vector<operands> rotation;
    try {
      rotation = copies(shape, given, memory);
    } catch (out_of_memory const&) {
      return;
    }
    auto const guesses = product.plan.guesses(library_.get());
    std::size_t turn = 0;
    int const best = fastest(stream_, static_cast<int>(guesses.size()), [&](int way) {
      auto const status = run(product.plan, guesses[static_cast<std::size_t>(way)],
                              rotation[turn++ % rotation.size()]);
      if (status != CUBLAS_STATUS_SUCCESS) static_cast<void>(cudaGetLastError());  // not the next's
      return status == CUBLAS_STATUS_SUCCESS;
    });
    if (best < 0) return;
    product.algorithm = guesses[static_cast<std::size_t>(best)];
    table_.set(shape, *product.algorithm);
  }

  /// A copy, which `memory` keeps. Throws `out_of_memory`.
  void* copy(void const* from, std::size_t size, std::vector<device_memory>& memory) {
    void* to = nullptr;
    check(cudaMallocAsync(&to, size, stream_.get()), "cudaMallocAsync of operands for tuning");
    memory.push_back(device_memory(to, free_enqueued{stream_.get()}));
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream_.get()),
          "cudaMemcpyAsync");
    return to;
  }

  /// Operands to time with in turn, so that a run does not find in the cache what the one before
  /// left there: copies, since times depend on the numbers multiplied. Large operands, which no
  /// cache holds, are taken as they are, but for a C that would be added to.
  [[nodiscard]] std::vector<operands> copies(matmul_shape const& shape, operands const& given,
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
    bool const in_place = given.addend == given.c;
    bool const apart = given.addend != nullptr && !in_place;
    auto const sets = std::min<std::size_t>(
        16, 2 * static_cast<std::size_t>(cache) / (bytes_a + bytes_b + (apart ? 2 : 1) * bytes_c));
    std::vector<operands> out;
    for (std::size_t i = 0; i < sets; ++i) {
      operands own{copied(given.c, bytes_c), copied(given.a, bytes_a), copied(given.b, bytes_b),
                   nullptr};
      own.addend = apart ? copied(given.addend, bytes_c) : in_place ? own.c : nullptr;
      out.push_back(own);
    }
    if (out.empty()) {
      out.push_back(given);
      if (in_place) out.back().c = copied(given.c, bytes_c);
      if (in_place) out.back().addend = out.back().c;
    }
    return out;
  }

  stream& stream_;
  handle library_;
  matmul_tuning table_;
  std::map<matmul_shape, known> plans_;
  bool tune_ = false;
};

/// Types and shapes that cuBLASLt has no algorithm for, sums of nothing among them, go to the plain
/// kernel.
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

/// Where cuBLASLt has no algorithm, or the bias is not aligned, the bias comes after the product.
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

/// The library overwrites where the bias' gradient goes, so it goes to the end of the product's
/// scratch and is added from there. Where the library has no algorithm, or one that is slower than
/// reading dy once more, the gradient is a pass of its own.
template <class T>
void enqueue(stream& s, ops::affine_backward_weight_arguments<T> const& a) {
  ops::matmul_options const product{.transpose_a = true, .accumulate = a.accumulate};
  auto const apart = [&] {
    ops::matmul(s, a.dweight, a.dy, a.x, product);
    ops::add_bias_backward(s, a.dbias, a.dy);
  };
  auto shape = shape_of(a.dweight, a.dy, a.x, product);
  shape.epilogue = matmul_epilogue::bias_gradient;
  if (a.dweight.empty() || shape.k == 0) return apart();
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
      fused, apart);
}

}  // namespace parallel::cuda
