// the stream lacks what parallel::stream (parallel/device/concepts.hpp) asks for: a type event_type
#include <parallel/device/concepts.hpp>

#include <parallel/comm/any_communicator.hpp>

struct own_stream {
  void synchronize() {}
};
using any = parallel::basic_any_communicator<own_stream>;
