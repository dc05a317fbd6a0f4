// Counts the parameters of MPT-125M, read from a configuration and by name.
#include <cstdint>
#include <cstdio>

#include <mpt/config/model/sizes.hpp>

int main() {
  std::int64_t const count = mpt::parameter_count(mpt::named_size("mpt-125m"));
  std::printf("mpt-125m has %lld parameters\n", static_cast<long long>(count));
  return count == 125311488 ? 0 : 1;
}
