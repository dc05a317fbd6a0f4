// See parallel/device/cuda/block.hpp.
#pragma once

#include <parallel/device/cuda/block.hpp>
