"""Controls that apply in addition to the policies of keys: freezes, limits, floors and break-glass."""
