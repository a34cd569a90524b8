#include "model/box_index.hpp"
