// gpu_rates: what this GPU does by itself, so that a training step can be held against it: every
// matrix product of a model's step, attention, copies of memory, and the products without a pause
// for as long as is asked (a short burst is faster than what power and heat allow).
//
// Its arguments are "--name value"; any wrong one prints them all. `--what`: products, attention,
// copy, sustained. One JSON line. Data are random: products of zeros run faster.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/sizes.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/attention.hpp>
#include <parallel/ops/cuda.hpp>
#include <parallel/ops/cuda/document_tables.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/tensor/head.hpp>

#include "gpu_arguments.hpp"

namespace {

namespace cuda = parallel::cuda;
namespace ops = parallel::ops;
using nlohmann::ordered_json;
using parallel::bf16;
using parallel::index;
using parallel::matrix_view;

/// A product of a step, C [m, n].
struct product {
  std::string name;
  index m, n, k;
  ops::matmul_options options;
  bool wide;    // C is float
  index times;  // in a step

  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// Those of one microbatch of `tokens`; the exit's go in its chunks, of which the last is smaller.
std::vector<product> products_of(mpt::model_config const& config, index tokens) {
  std::vector<product> out;
  auto const add = [&](std::string const& name, index rows, index width, index depth, index times) {
    out.push_back({name, rows, width, depth, {.transpose_b = true}, false, times});
    out.push_back({name + " dX", rows, depth, width, {}, false, times});
    out.push_back(
        {name + " dW", width, depth, rows, {.transpose_a = true, .accumulate = true}, true, times});
  };
  index const d = config.d_model, layers = config.n_layers;
  add("qkv", tokens, 3 * d, d, layers);
  add("out", tokens, d, d, layers);
  add("up", tokens, 4 * d, d, layers);
  add("down", tokens, d, 4 * d, layers);
  parallel::tensor::head<bf16, parallel::single> exit;
  exit.weight = {"lm_head.weight", {config.vocab_size, d}};
  index const chunk = exit.chunk_rows(tokens, sizeof(bf16));
  add("head", chunk, config.vocab_size, d, tokens / chunk);
  if (tokens % chunk > 0) add("head, last chunk", tokens % chunk, config.vocab_size, d, 1);
  return out;
}

/// Seconds between two points of a stream.
class stopwatch {
 public:
  explicit stopwatch(cuda::stream& s) : stream_(s) {
    cuda::check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;

  template <class Work>
  [[nodiscard]] double measure(Work const& work) {
    cuda::check(cudaEventRecord(begin_, stream_.get()), "cudaEventRecord");
    work();
    cuda::check(cudaEventRecord(end_, stream_.get()), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

  /// The median of one `work()` over at least 10 and some 0.3 s.
  template <class Work>
  [[nodiscard]] double median(Work const& work) {
    for (int warm = 0; warm < 3; ++warm) static_cast<void>(measure(work));
    std::vector<double> all;
    for (double sum = 0; all.size() < 10 || (sum < 0.3 && all.size() < 2000); sum += all.back())
      all.push_back(measure(work));
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
  }

 private:
  cuda::stream& stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// Memory of the GPU with random numbers: the same million again and again.
template <class T>
parallel::buffer<T> random_memory(cuda::device const& device, index count, double deviation) {
  parallel::philox const source(3, parallel::stream_id("gpu_rates"));
  std::vector<T> some(std::size_t{1} << 20);
  for (std::size_t i = 0; i < some.size(); ++i)
    some[i] = static_cast<T>(static_cast<float>(deviation) * source.normal(i));
  auto out = device.allocate<T>(static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < out.size(); at += some.size()) {
    auto const part = std::min(some.size(), out.size() - at);
    device.upload(out.span().subspan(at, part), std::span<T const>(some).first(part));
  }
  return out;
}

class rates {
 public:
  explicit rates(bench::gpu_arguments const& args)
      : config_(mpt::named_size(args.text("size"))),
        tokens_(args.number("tokens")),
        length_(args.number("length")),
        document_(args.number("document")),
        sequences_(args.number("sequences") != 0),
        stream_(device_.compute_options()),
        watch_(stream_) {
    if (args.text("form") == "b") config_ = mpt::hub_form(config_);
  }

  ordered_json products() {
    prepare();
    ordered_json rows = ordered_json::array();
    for (auto const& p : products_) {
      double const seconds = watch_.median([&] { run(p); });
      rows.push_back({{"name", p.name},
                      {"m", p.m},
                      {"n", p.n},
                      {"k", p.k},
                      {"times", p.times},
                      {"microseconds", 1e6 * seconds},
                      {"tflops", 1e-12 * p.operations() / seconds}});
    }
    return rows;
  }

  /// A step's products in turn, each as often as there, for so many seconds; TFLOP/s of each
  /// second.
  ordered_json sustained(double seconds) {
    prepare();
    using clock = std::chrono::steady_clock;
    auto const since = [](clock::time_point begin) {
      return std::chrono::duration<double>(clock::now() - begin).count();
    };
    double operations = 0;
    index most = 0;
    for (auto const& p : products_) {
      operations += static_cast<double>(p.times) * p.operations();
      most = std::max(most, p.times);
    }
    auto const begin = clock::now();
    ordered_json by_second = ordered_json::array();
    while (since(begin) < seconds) {
      double done = 0, spent = 0;
      while (spent < 1.0) {
        spent += watch_.measure([&] {
          for (index time = 0; time < most; ++time)
            for (auto const& p : products_)
              if (time < p.times) run(p);
        });
        done += operations;
      }
      by_second.push_back(1e-12 * done / spent);
    }
    return by_second;
  }

  ordered_json attention() {
    index const heads = config_.n_heads, dim = config_.d_model / heads;
    index const sequences = std::max<index>(1, tokens_ / length_);
    index const row = 3 * heads * dim, width = heads * dim;
    auto const packed = random_memory<bf16>(device_, sequences * length_ * row, 1.0);
    auto const gradient = random_memory<bf16>(device_, sequences * length_ * row, 1.0);
    auto const out = random_memory<bf16>(device_, sequences * length_ * width, 1.0);
    auto const dout = random_memory<bf16>(device_, sequences * length_ * width, 1.0);
    auto const lse = device_.allocate<float>(static_cast<std::size_t>(sequences * heads * length_));
    std::vector<float> slopes;
    if (config_.attn.alibi)
      for (index h = 0; h < heads; ++h)
        slopes.push_back(std::exp2(-8.0F * static_cast<float>(h + 1) / static_cast<float>(heads)));
    auto const documents = documents_of(sequences);
    ops::attention_options options{.scale = 1.0 / std::sqrt(static_cast<double>(dim)),
                                   .alibi_slopes = slopes,
                                   .document_begins = documents.span()};
    auto const part = [&](auto* data, index which) {
      return ops::heads_view<std::remove_pointer_t<decltype(data)>>{
          data + which * width, sequences, length_, heads, dim, length_ * row, row};
    };
    auto const whole = [&](auto* data) {
      return ops::heads_view<std::remove_pointer_t<decltype(data)>>{
          data, sequences, length_, heads, dim, length_ * width, width};
    };
    parallel::tensor_view<float, 3> const sums(lse.data(), {sequences, heads, length_});
    bf16 const* const x = packed.data();
    bf16 const* const y = out.data();
    bf16 const* const dy = dout.data();
    auto const run_forward = [&] {
      ops::attention(stream_, whole(out.data()), sums, part(x, 0), part(x, 1), part(x, 2), options);
    };
    auto const run_backward = [&] {
      ops::attention_backward(stream_, part(gradient.data(), 0), part(gradient.data(), 1),
                              part(gradient.data(), 2), whole(dy), part(x, 0), part(x, 1),
                              part(x, 2), whole(y), sums, options);
    };
    cuda::tune_kernels(stream_, true);
    run_forward();
    run_backward();
    cuda::tune_kernels(stream_, false);
    double const forward = watch_.median(run_forward);
    double const backward = watch_.median(run_backward);
    // what the causal mask keeps: 2 d s a token forward, 5 d s backward
    auto const rate = [&](double factor, double seconds) {
      return 1e-12 * factor * static_cast<double>(width) * static_cast<double>(length_) *
             static_cast<double>(sequences * length_) / seconds;
    };
    ordered_json report{{"tokens", sequences * length_},
                        {"length", length_},
                        {"heads", heads},
                        {"dim", dim},
                        {"alibi", !slopes.empty()},
                        {"document", document_},
                        {"forward_microseconds", 1e6 * forward},
                        {"forward_tflops", rate(2, forward)},
                        {"backward_microseconds", 1e6 * backward},
                        {"backward_tflops", rate(5, backward)}};
    if (document_ == 0 || !sequences_) return report;
    // the same with each document a sequence of its own, which tables have to ask for
    index const count = sequences * ((length_ + document_ - 1) / document_);
    options.document_begins = {documents.span(), count};
    auto tables = cuda::tuned_kernels(stream_);
    auto const timed = tables.attention.entries();
    for (auto const& [problem, plan] : timed) {
      auto apart = problem;
      apart.max_documents = cuda::document_bound(count, sequences * length_);
      if (problem.documents && apart.max_documents > 0) tables.attention.set(apart, 0);
    }
    try {
      cuda::use_kernels(stream_, tables);
      report["forward_of_sequences_microseconds"] = 1e6 * watch_.median(run_forward);
      report["backward_of_sequences_microseconds"] = 1e6 * watch_.median(run_backward);
    } catch (parallel::error const& refused) {
      report["sequences"] = refused.what();
    }
    return report;
  }

  /// GB/s, bytes read and bytes written.
  ordered_json copy() {
    index const count = index{1} << 30;  // 2 GiB of bf16
    auto const from = random_memory<bf16>(device_, count, 1.0);
    auto const to = device_.allocate<bf16>(static_cast<std::size_t>(count));
    auto const bytes = 4.0 * static_cast<double>(count);
    double const by_runtime = watch_.median([&] {
      cuda::check(cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(bf16),
                                  cudaMemcpyDeviceToDevice, stream_.get()),
                  "cudaMemcpyAsync");
    });
    index const columns = 4096;  // of rows: flat memory is copied by the runtime
    double const by_kernel = watch_.median([&] {
      ops::copy(stream_, ops::rows_view<bf16>(to.data(), count / columns, columns, columns),
                ops::rows_view<bf16 const>(from.data(), count / columns, columns, columns));
    });
    return {{"runtime", 1e-9 * bytes / by_runtime}, {"kernel", 1e-9 * bytes / by_kernel}};
  }

 private:
  /// Where the documents of `sequences` begin.
  parallel::buffer<std::int32_t> documents_of(index sequences) {
    std::vector<std::int32_t> begins;
    for (index at = 0; document_ > 0 && at < sequences * length_; ++at)
      begins.push_back(static_cast<std::int32_t>(at % length_ / document_ * document_));
    auto out = device_.allocate<std::int32_t>(begins.size());
    device_.upload(out.span(), std::span<std::int32_t const>(begins));
    return out;
  }

  /// Memory that every product finds its operands in, and tuned algorithms.
  void prepare() {
    products_ = products_of(config_, tokens_);
    index a = 0, b = 0, c = 0;
    for (auto const& p : products_) {
      a = std::max(a, p.m * p.k);
      b = std::max(b, p.k * p.n);
      c = std::max(c, p.m * p.n * (p.wide ? 2 : 1));
    }
    a_ = random_memory<bf16>(device_, a, 1.0);
    b_ = random_memory<bf16>(device_, b, 0.02);
    c_ = random_memory<bf16>(device_, c, 1.0);
    cuda::tune_kernels(stream_, true);
    for (auto const& p : products_) run(p);
    cuda::tune_kernels(stream_, false);
  }

  void run(product const& p) {
    auto const stored = [](bf16 const* data, index rows, index columns, bool transposed) {
      return matrix_view<bf16 const>(
          data, transposed ? parallel::shape<2>{columns, rows} : parallel::shape<2>{rows, columns});
    };
    auto const a = stored(a_.data(), p.m, p.k, p.options.transpose_a);
    auto const b = stored(b_.data(), p.k, p.n, p.options.transpose_b);
    if (p.wide)
      ops::matmul(stream_, matrix_view<float>(reinterpret_cast<float*>(c_.data()), {p.m, p.n}), a,
                  b, p.options);
    else
      ops::matmul(stream_, matrix_view<bf16>(c_.data(), {p.m, p.n}), a, b, p.options);
  }

  mpt::model_config config_;
  index tokens_, length_;
  index document_;  // tokens of each; 0: each sequence is one
  bool sequences_;  // whether documents are timed as sequences of their own too
  cuda::device device_;
  cuda::stream stream_;
  stopwatch watch_;
  std::vector<product> products_;
  parallel::buffer<bf16> a_, b_, c_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::gpu_arguments const args(argc, argv,
                                    {{"what", "products"},
                                     {"size", "125m"},
                                     {"form", "b"},
                                     {"tokens", "32768"},
                                     {"length", "2048"},
                                     {"document", "0"},
                                     {"sequences", "0"},
                                     {"seconds", "60"}});
    auto const& what = args.text("what");
    rates of(args);
    ordered_json out{{"what", what},
                     {"size", args.text("size")},
                     {"form", args.text("form")},
                     {"tokens", args.number("tokens")}};
    if (what == "products")
      out["products"] = of.products();
    else if (what == "sustained")
      out["tflops_by_second"] = of.sustained(static_cast<double>(args.number("seconds")));
    else if (what == "attention")
      out["attention"] = of.attention();
    else if (what == "copy")
      out["gigabytes_per_second"] = of.copy();
    else
      parallel::fail("--what ", what, ": there are products, sustained, attention and copy");
    std::cout << out.dump() << std::endl;
    return 0;
  } catch (std::exception const& problem) {
    std::cerr << "gpu_rates: " << problem.what() << std::endl;
    return 1;
  }
}
