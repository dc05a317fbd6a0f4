// Compiled by g++ against gelu.hpp alone and linked with gelu.cu. Where there is a GPU it compares
// gelu and its gradient with the plain loops; elsewhere it ends at once.
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include <parallel/ops/cuda/gelu.hpp>
#include <parallel/ops/reference/gelu.hpp>

namespace {

template <class T>
struct managed {
  explicit managed(std::size_t count) : size(count) {
    void* memory = nullptr;
    parallel::cuda::check(cudaMallocManaged(&memory, count * sizeof(T), cudaMemAttachGlobal),
                          "cudaMallocManaged");
    data = static_cast<T*>(memory);
  }
  ~managed() { static_cast<void>(cudaFree(data)); }
  managed(managed const&) = delete;
  managed& operator=(managed const&) = delete;
  [[nodiscard]] std::span<T> span() const { return {data, size}; }

  T* data = nullptr;
  std::size_t size;
};

/// The largest difference, relative to the largest of 1 and the reference.
template <class T>
double difference(std::span<T const> a, std::span<T const> b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const x = static_cast<float>(a[i]);
    double const y = static_cast<float>(b[i]);
    worst = std::fmax(worst, std::fabs(x - y) / std::fmax(1.0, std::fabs(y)));
  }
  return worst;
}

template <class T>
bool agrees(double tolerance) {
  constexpr std::size_t count = 100003;
  parallel::cuda::stream device;
  parallel::reference::stream host;
  managed<T> const x(count);
  managed<T> const dy(count);
  managed<T> const y(count);
  managed<T> const dx(count);
  for (std::size_t i = 0; i < count; ++i) {
    x.data[i] = static_cast<T>(12.0F * static_cast<float>(i) / static_cast<float>(count) - 6.0F);
    dy.data[i] = static_cast<T>(std::sin(static_cast<float>(i)));
  }
  parallel::ops::gelu(device, y.span(), x.span());
  parallel::ops::gelu_backward(device, dx.span(), x.span(), dy.span());
  device.record().wait();
  device.synchronize();

  std::vector<T> expected(count);
  parallel::ops::gelu(host, std::span<T>(expected), x.span());
  double const forward = difference<T>(y.span(), expected);
  parallel::ops::gelu_backward(host, std::span<T>(expected), x.span(), dy.span());
  double const backward = difference<T>(dx.span(), expected);
  std::printf("gelu differs by %.2g, its gradient by %.2g\n", forward, backward);
  return forward <= tolerance && backward <= tolerance;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: linked, not run");
    return 0;
  }
  return agrees<float>(1e-6) && agrees<parallel::bf16>(1.0 / 128) ? 0 : 1;
}
