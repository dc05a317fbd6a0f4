// cuDNN's errors as parallel::error, and its backend descriptors as values that own them.
//
// Everything in cuDNN's graph interface (cudnn_graph.h) is a descriptor with typed attributes: it
// is created, its attributes are set, it is finalized, and then it is only read.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel::cuda::cudnn {

/// Throws `error` with `call`, cuDNN's reason and the call site, unless `status` is success.
inline void check(cudnnStatus_t status, char const* call, call_site caller = call_site::current()) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  char reason[1024] = {};
  cudnnGetLastErrorString(reason, sizeof reason);
  fail("cuDNN: ", call, " failed with ", cudnnGetErrorString(status), ": ", reason, " (", caller,
       ")");
}

namespace detail {
// The enumerators by which cuDNN names the element type of an attribute. Pointers to data and
// descriptors are both void*, so they have separate functions.
template <class V>
struct attribute;
template <cudnnBackendAttributeType_t Type>
struct attribute_as {
  static constexpr auto type = Type;
};
template <>
struct attribute<std::int64_t> : attribute_as<CUDNN_TYPE_INT64> {};
template <>
struct attribute<bool> : attribute_as<CUDNN_TYPE_BOOLEAN> {};
template <>
struct attribute<char> : attribute_as<CUDNN_TYPE_CHAR> {};
template <>
struct attribute<cudnnHandle_t> : attribute_as<CUDNN_TYPE_HANDLE> {};
template <>
struct attribute<cudnnDataType_t> : attribute_as<CUDNN_TYPE_DATA_TYPE> {};
template <>
struct attribute<cudnnPointwiseMode_t> : attribute_as<CUDNN_TYPE_POINTWISE_MODE> {};
template <>
struct attribute<cudnnReduceTensorOp_t> : attribute_as<CUDNN_TYPE_REDUCTION_OPERATOR_TYPE> {};
template <>
struct attribute<cudnnBackendHeurMode_t> : attribute_as<CUDNN_TYPE_HEUR_MODE> {};
}  // namespace detail

class descriptor {
 public:
  explicit descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t created = nullptr;
    check(cudnnBackendCreateDescriptor(type, &created), "cudnnBackendCreateDescriptor");
    owned_.reset(created);
  }

  template <class V>
  descriptor& set(cudnnBackendAttributeName_t name, std::span<V const> values) {
    return put(name, detail::attribute<V>::type, values.size(), values.data());
  }
  template <class V>
  descriptor& set(cudnnBackendAttributeName_t name, V value) {
    return set(name, std::span<V const>(&value, 1));
  }
  descriptor& set(cudnnBackendAttributeName_t name, descriptor const& value) {
    cudnnBackendDescriptor_t const raw = value.get();
    return put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  }
  descriptor& set(cudnnBackendAttributeName_t name, std::span<descriptor const> values) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (auto const& value : values) raw.push_back(value.get());
    return put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(), raw.data());
  }
  /// Sets addresses of memory, on the device or the host as the attribute requires.
  descriptor& set_pointers(cudnnBackendAttributeName_t name, std::span<void* const> values) {
    return put(name, CUDNN_TYPE_VOID_PTR, values.size(), values.data());
  }

  descriptor& finalize() {
    check(cudnnBackendFinalize(get()), "cudnnBackendFinalize");
    return *this;
  }
  /// Returns false when cuDNN refuses the attributes.
  [[nodiscard]] bool try_finalize() { return cudnnBackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

  template <class V>
  [[nodiscard]] V read(cudnnBackendAttributeName_t name) const {
    V value{};
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(get(), name, detail::attribute<V>::type, 1, &count, &value),
          "cudnnBackendGetAttribute");
    return value;
  }
  /// At most `max_count` descriptors of `type`; none when cuDNN returns an error.
  [[nodiscard]] std::vector<descriptor> try_read(cudnnBackendAttributeName_t name,
                                                 cudnnBackendDescriptorType_t type,
                                                 std::size_t max_count) const {
    std::vector<descriptor> values;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::size_t i = 0; i < max_count; ++i) raw.push_back(values.emplace_back(type).get());
    std::int64_t count = 0;
    if (cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 static_cast<std::int64_t>(max_count), &count,
                                 raw.data()) != CUDNN_STATUS_SUCCESS)
      count = 0;
    while (values.size() > static_cast<std::size_t>(count)) values.pop_back();
    return values;
  }

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return owned_.get(); }

 private:
  struct destroy {
    void operator()(void* handle) const {
      static_cast<void>(cudnnBackendDestroyDescriptor(handle));
    }
  };

  descriptor& put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::size_t count, void const* values) {
    check(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values),
          "cudnnBackendSetAttribute");
    return *this;
  }

  std::unique_ptr<void, destroy> owned_;
};

}  // namespace parallel::cuda::cudnn
