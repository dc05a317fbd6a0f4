// The names that a pickle of weights may contain, from PyTorch's and Composer's files. None of them
// is ever looked up or called; any other name is refused.
#pragma once

#include <array>
#include <string_view>

namespace mpt::hf::pickle_names {

/// Functions whose results the reader of pickles knows.
inline constexpr std::string_view mapping = "collections.OrderedDict";
inline constexpr std::string_view tensor = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view parameter = "torch._utils._rebuild_parameter";

/// Types of storages, which tell the type of the elements.
inline constexpr std::array<std::string_view, 11> storages = {
    "torch.FloatStorage",    "torch.DoubleStorage",      "torch.HalfStorage",
    "torch.BFloat16Storage", "torch.LongStorage",        "torch.IntStorage",
    "torch.ShortStorage",    "torch.CharStorage",        "torch.ByteStorage",
    "torch.BoolStorage",     "torch.ComplexFloatStorage"};

/// Functions and types whose results are irrelevant for weights.
inline constexpr std::array<std::string_view, 27> irrelevant = {
    "torch.Size",
    "torch.device",
    "torch.float16",
    "torch.bfloat16",
    "torch.float32",
    "torch.float64",
    "torch.int64",
    "torch.torch_version.TorchVersion",
    "collections.defaultdict",
    "collections.deque",
    "builtins.set",
    "builtins.frozenset",
    "builtins.complex",
    "builtins.bytearray",
    "__builtin__.set",
    "__builtin__.bytearray",
    "_codecs.encode",
    "datetime.timedelta",
    "datetime.datetime",
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "composer.core.time.Time",
    "composer.core.time.TimeUnit"};

[[nodiscard]] bool is_storage(std::string_view name);

[[nodiscard]] bool is_allowed(std::string_view name);

}  // namespace mpt::hf::pickle_names
