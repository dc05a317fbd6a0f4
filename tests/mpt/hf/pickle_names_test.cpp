#include <string_view>

#include <doctest/doctest.h>

#include <mpt/hf/pickle.hpp>

namespace pickle_names_test {

namespace names = mpt::hf::pickle_names;

TEST_CASE("pickle names: only names on the list are allowed, and only in full") {
  for (std::string_view const name :
       {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.BFloat16Storage",
        "torch._utils._rebuild_parameter", "datetime.timedelta"})
    CHECK(names::is_allowed(name));
  for (std::string_view const name :
       {"", "os.system", "torch.", "torch.FloatStorage.__init__", "Torch.FloatStorage",
        "torch.XStorage", "builtins.eval", "builtins.exec", "builtins.getattr",
        "operator.attrgetter", "torch.storage._load_from_bytes", "numpy.load",
        "collections.OrderedDict "})
    CHECK_FALSE(names::is_allowed(name));
  CHECK(names::is_storage("torch.HalfStorage"));
  CHECK_FALSE(names::is_storage("collections.OrderedDict"));
}

}  // namespace pickle_names_test
