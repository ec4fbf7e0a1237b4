"""World, plan and history turned into tables, sentences and pictures. Pure: nothing here reads or writes."""
